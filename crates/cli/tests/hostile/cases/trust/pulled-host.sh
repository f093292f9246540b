# class: trust
# about: a trusted configuration has one more host after a pull
# before: broke
unset CREALEPH_TRUST
into_clone
crealeph_does trust --yes
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "what was trusted does not run"
(cd "$WS" && echo 'network = ["collector.example:443"]' >>crealeph.toml && git commit -qam host)
git checkout -q -- .
git pull -q
agent_runs 'echo y >>a.txt'
refused "crealeph trust $SCENE/clone/crealeph.toml"
grep -q "host  *collector.example:443" "$SCENE/err" || broken "the host is not shown"
if grep -q "runs " "$SCENE/err"; then broken "what was accepted before is shown again"; fi
