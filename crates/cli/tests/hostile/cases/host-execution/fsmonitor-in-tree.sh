# class: host-execution
# about: core.fsmonitor names a program of the tree
# before: broke
mkdir tools
printf '#!/bin/sh\n' >tools/watch
chmod +x tools/watch
git add -A
git commit -qm watch
git config core.fsmonitor "$WS/tools/watch"
agent_runs "$(payload tools/watch); echo x >>a.txt"
landed
safe
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
