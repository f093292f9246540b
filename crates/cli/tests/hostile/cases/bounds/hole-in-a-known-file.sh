# class: bounds
# about: two files of the workspace are extended by holes, past the disk bound together
# before: broke
agent_runs 'truncate -s 4G a.txt; truncate -s 1G src/b.txt'
denied_for 'limit `disk_bytes`'
nothing_kept
test "$(wc -c <a.txt)" = 14 || broken "a.txt was changed"
