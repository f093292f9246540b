# class: bounds
# about: the same as on the tree, on the way to a branch
# before: broke
started
agent_runs 'head -c 3000000 /dev/urandom >one; head -c 3000000 /dev/urandom >two' --max-files 1 --publish branch:agents/x
denied_for '^Exceeded max files: 2 > 1$'
agent_runs 'truncate -s 4G one; truncate -s 1G two' --publish branch:agents/x
denied_for 'limit `disk_bytes`'
within 60
nothing_kept
