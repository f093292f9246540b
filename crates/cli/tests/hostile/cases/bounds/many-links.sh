# class: bounds
# about: 12,000 symbolic links; a link is a file of the change
# before: held
started
agent_runs 'mkdir many; cd many; python3 -c "
import os
for number in range(12000): os.symlink(\"../a.txt\", str(number))"' --max-files 1
denied_for '^Exceeded max files: 12000 > 1$'
within 15
nothing_kept
