# class: bounds
# about: folders nested deeper than any path can name must neither hang nor crash the reading, nor be left behind
# before: broke
started
agent_runs 'python3 -c "
import os
for number in range(1000):
    os.mkdir(\"deep\"); os.chdir(\"deep\")"; echo x >>a.txt'
if test "$(status)" = success; then broken "it landed"; fi
test "$(status)" = denied || broken "the status is $(status), not denied"
within 60
nothing_kept
