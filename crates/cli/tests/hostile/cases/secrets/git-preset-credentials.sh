# class: secrets
# about: the preset git shows the tokens and helpers in the user's git configuration
# before: broke
printf '[credential]\n\thelper = store --file /x/tok\n[url "https://ana:hunter2hunter2@example.com/"]\n\tinsteadOf = https://example.com/\n[http]\n\textraHeader = Authorization: Basic dG9rZW4tMTIzNDU2\n[include]\n\tpath = ~/.more\n' >>"$HOME/.gitconfig"
printf 'presets = ["git"]\n' >>crealeph.toml; git commit -qam preset
agent_runs 'git config --list --global >seen.txt; cat ~/.gitconfig >>seen.txt; git config user.name >name.txt'
succeeded
test "$(cat name.txt)" = Ana || broken "the name is not there"
if grep -qiE 'hunter2|helper|extraheader|include' seen.txt; then broken "the agent saw: $(cat seen.txt)"; fi
