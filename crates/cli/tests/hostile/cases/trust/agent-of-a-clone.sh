# class: trust
# about: a clone brings an agent with a command, and the user runs it by the name that the README tells
# before: broke
# holds: invariant 16
unset CREALEPH_TRUST
into_clone
agent_runs 'echo x >>a.txt'
refused "crealeph trust $SCENE/clone/crealeph.toml"
grep -q "runs  *sh -c {prompt}" "$SCENE/err" || broken "what would be granted is not shown"
if grep -q x a.txt; then broken "the agent ran"; fi
test ! -e .crealeph || broken "something was made"
crealeph_does trust --yes
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "what was trusted does not run"
