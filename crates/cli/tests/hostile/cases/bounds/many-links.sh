# class: bounds
# about: 2,600 symbolic links; a link is a file of the change
# before: held
# fails without: counting links
started
agent_runs 'mkdir many; cd many; python3 -c "
import os
for number in range(2600): os.symlink(\"../a.txt\", str(number))"' --max-files 1
denied_for '^Exceeded max files: 2600 > 1$'
within 60
nothing_kept
