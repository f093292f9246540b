# class: bounds
# about: a FIFO named .gitignore, and one in the place of a file, block anyone who opens them
# before: broke
started
agent_runs 'mkfifo .gitignore; rm a.txt; mkfifo a.txt; echo x >>src/b.txt' --timeout 60s
test "$(status)" = denied || broken "the status is $(status), not denied"
grep -q 'is a FIFO' "$SCENE/out" || broken "not for the FIFO"
within 60
nothing_kept
