# class: host-execution
# about: core.hooksPath names a folder of the tree, and the agent puts a hook there that git runs when a branch moves
# before: broke
git config core.hooksPath hooks
agent_runs 'mkdir hooks; printf "#!/bin/sh\necho hook >'"$OUT"'/pwned\n" >hooks/reference-transaction
    chmod +x hooks/reference-transaction'
agent_runs 'echo y >>a.txt' --publish branch:agents/x
test "$(status)" = success || broken "the branch was not written"
safe
