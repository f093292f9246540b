# class: host-execution
# about: core.fsmonitor names a program of the tree
# before: held
git config core.fsmonitor tools/watch
mkdir tools
printf '#!/bin/sh\n' >tools/watch
chmod +x tools/watch
git add -A
git commit -qm watch
agent_runs "$(payload tools/watch); echo x >>a.txt"
landed
rm -f "$OUT/pwned"
git config core.fsmonitor "$WS/tools/watch"
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
