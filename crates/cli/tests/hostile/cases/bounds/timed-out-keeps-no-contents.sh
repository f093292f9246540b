# class: bounds
# about: an agent writes a lot and then waits for its time to end
# before: broke
started
agent_runs 'head -c 30000000 /dev/urandom >one; sleep 100' --timeout 2s
test "$(status)" = timeout || broken "the status is $(status)"
within 60
nothing_kept
