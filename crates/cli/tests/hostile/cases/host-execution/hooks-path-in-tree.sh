# class: host-execution
# about: core.hooksPath names a folder of the tree, and the agent puts a hook there that git runs when the branch moves
# before: broke
git config core.hooksPath hooks
agent_runs "mkdir hooks; $(payload hooks/reference-transaction); cp hooks/reference-transaction hooks/post-checkout; echo x >>a.txt"
landed
safe
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
