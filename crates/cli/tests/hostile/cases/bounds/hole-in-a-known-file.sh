# class: bounds
# about: a file of the workspace is extended by a hole of 4 TiB
# before: broke
# It would take an hour to read.
started
agent_runs 'truncate -s 4T a.txt'
denied_for 'limit `disk_bytes`'
within 20
nothing_kept
test "$(wc -c <a.txt)" = 14 || broken "a.txt was changed"
