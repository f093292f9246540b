# class: bounds
# about: the agent takes away the rule that ignores a file of 2 TiB, so that the next reading hashes it all
# before: broke
echo 'big' >.gitignore
truncate -s 2T big
started
agent_runs 'echo >.gitignore' --timeout 3s
within 60
test "$(status)" != success || broken "it landed"
nothing_kept
