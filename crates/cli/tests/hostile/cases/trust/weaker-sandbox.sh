# class: trust
# about: a trusted configuration accepts a weaker sandbox after a pull, hides less and grants tests a secret
# before: broke
unset CREALEPH_TRUST
into_clone
crealeph_does trust --yes
cp crealeph.toml "$SCENE/accepted.toml"
for line in 'accept_reduced = true' 'hide = []' 'test = { secrets = ["KEY"] }' 'env = { LD_PRELOAD = "./x.so" }' \
    'memory_bytes = 1000000000000' 'paths = { allow_laws = true }' 'read = ["/etc"]' 'home = ["~/.ssh/id_ed25519"]' 'caches = ["~/.cache"]'; do
    cp "$SCENE/accepted.toml" crealeph.toml
    echo "$line" >>crealeph.toml
    agent_runs 'echo x >>a.txt'
    refused "crealeph trust $SCENE/clone/crealeph.toml"
done
cp "$SCENE/accepted.toml" crealeph.toml
printf 'memory_bytes = 2000000000\nnetwork = "none"\npaths = { denied = ["x"] }\n' >>crealeph.toml
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "a narrower configuration is asked for again"
