# class: bounds
# about: one content under 2,200 names costs its length for each name when it is stored
# before: broke
started
agent_runs 'mkdir many; cd many; head -c 100000 /dev/zero >0; python3 -c "
import os
for number in range(1, 2200): os.link(\"0\", str(number))"' --max-files 5
denied_for '^Exceeded max files: 2200 > 5$'
within 60
nothing_kept
