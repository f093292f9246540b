# class: host-execution
# about: a hook in the tree that git runs whenever it writes an index
# before: broke
git config core.hooksPath hooks
agent_runs "mkdir hooks; $(payload hooks/post-index-change); echo x >>a.txt"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
