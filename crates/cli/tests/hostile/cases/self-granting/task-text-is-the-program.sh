# class: self-granting
# about: the command's program is the prompt, so a task names any program of the machine to run with the agent's rights
# before: broke
printf '#!/bin/sh\necho ran >ran.txt\n' >"$OUT/tool"
chmod 755 "$OUT/tool"
cat >crealeph.toml <<'END'
[work.agents.one]
agent_id = "agent-1"
command = ["{prompt}"]
END
item "$OUT/tool"
crealeph_does work run "$SCENE/items.json"
if test -e ran.txt; then broken "a program that only the task named was granted and ran"; fi
grep -q "could not be run\|exit code 127\|exit code 126" "$SCENE/out" || broken "the run did not say why"
