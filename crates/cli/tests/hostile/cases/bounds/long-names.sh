# class: bounds
# about: 200 folders with names of 250 bytes are a path that no system call takes
# before: broke
started
agent_runs 'python3 -c "
import os
for number in range(40):
    os.mkdir(\"n\" * 250); os.chdir(\"n\" * 250)
open(\"file\", \"w\").write(\"x\")"'
test "$(status)" = denied || broken "the status is $(status), not denied"
within 60
nothing_kept
