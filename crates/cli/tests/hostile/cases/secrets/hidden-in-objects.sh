# class: secrets
# about: a hidden file that is part of the state is copied to the store, for every later reader
# before: broke
echo 'PASSWORD=hunter2hunter2' >.env; mkdir -p deploy; echo 'PASSWORD=hunter3hunter3' >deploy/.env.local
agent_runs 'ls -A . deploy >seen.txt; echo x >b.txt'
succeeded
if grep -q '\.env' seen.txt; then broken "the agent saw it"; fi
if grep -rqa 'hunter[23]hunter' .crealeph; then broken "it was stored"; fi
test "$(cat .env)" = 'PASSWORD=hunter2hunter2' || broken "it was changed"
