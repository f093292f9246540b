# class: bounds
# about: an agent that fails leaves the contents it wrote in the store
# before: broke
agent_runs 'head -c 5000000 /dev/urandom >one; exit 3'
test "$(status)" = failure || broken "the status is $(status)"
nothing_kept
