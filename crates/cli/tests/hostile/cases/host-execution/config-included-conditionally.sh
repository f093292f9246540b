# class: host-execution
# about: the user includes settings for this repository from a file of the tree
# before: broke
printf '[includeIf "gitdir:%s/"]\n\tpath = %s/.gitshared\n' "$WS" "$WS" >>"$HOME/.gitconfig"
agent_runs "mkdir hooks; $(payload hooks/reference-transaction); printf '[core]\n\thooksPath = %s/hooks\n' \"\$PWD\" >.gitshared"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
