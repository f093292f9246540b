# class: secrets
# about: the preset node gives registries, and no tokens of theirs
# before: broke
printf 'registry=https://ana:hunter2hunter2@npm.example.com/\n//npm.example.com/:_authToken=npm_0123456789abcdef\n' >"$HOME/.npmrc"
mkdir -p "$HOME/.npm/_logs" "$HOME/.npm/_cacache" "$HOME/bin"; echo 'npm_0123456789abcdef' >"$HOME/.npm/_logs/debug.log"
printf '#!/bin/sh\n' >"$HOME/bin/node"; chmod +x "$HOME/bin/node"; PATH=$HOME/bin:$PATH
printf 'presets = ["node"]\n' >>crealeph.toml; git commit -qam preset
agent_runs 'cat ~/.npmrc >seen.txt; cat ~/.npm/_logs/* >>seen.txt 2>/dev/null; echo over >>seen.txt'
succeeded
if grep -q 'hunter2\|npm_0123' seen.txt; then broken "the agent saw: $(cat seen.txt)"; fi
grep -q 'npm.example.com' seen.txt || broken "the registry is not there"
