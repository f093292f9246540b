# class: host-execution
# about: a folder of the tree is on the caller's PATH, and the agent puts a program called git there
# before: broke
mkdir bin
PATH=$WS/bin:$PATH
agent_runs "mkdir -p bin; $(payload bin/git); echo x >>a.txt"
landed
test -x bin/git || broken "the scene is not set"
agent_runs 'echo y >>src/b.txt'
crealeph_does work run --agent one 'echo z >>src/b.txt' --publish branch:agents/x
crealeph_does work replay "$(crealeph work status | jq -r 'select(.run).run' | head -n 1)"
safe
