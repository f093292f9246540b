# class: host-execution
# about: core.hooksPath names a folder of the tree, and the agent puts a hook there that git runs when the branch moves
git config core.hooksPath hooks
agent_runs 'mkdir hooks; printf "#!/bin/sh\necho hook >'"$OUT"'/pwned\n" >hooks/reference-transaction
    chmod +x hooks/reference-transaction; cp hooks/reference-transaction hooks/post-checkout; echo x >>a.txt' --publish branch:agents/x
safe
# The hook is there for the next branch, if it landed.
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
safe
