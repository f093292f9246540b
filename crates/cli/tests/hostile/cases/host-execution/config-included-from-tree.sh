# class: host-execution
# about: the repository includes settings from a file of the tree, where the agent writes core.hooksPath
# before: broke
git config include.path ../.gitshared
agent_runs "mkdir hooks; $(payload hooks/reference-transaction); printf '[core]\n\thooksPath = hooks\n' >.gitshared"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
