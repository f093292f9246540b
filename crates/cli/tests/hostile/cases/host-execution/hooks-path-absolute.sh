# class: host-execution
# about: core.hooksPath names a folder of the tree by its absolute path
# before: broke
git config core.hooksPath "$WS/tools/hooks"
agent_runs "mkdir -p tools/hooks; $(payload tools/hooks/reference-transaction); echo x >>a.txt"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
