# class: bounds
# about: a denied run leaves the contents it wrote in the store, run after run
# before: broke
for turn in 1 2 3; do
    agent_runs 'head -c 3000000 /dev/urandom >one; head -c 3000000 /dev/urandom >two' --max-files 1
    denied_for '^Exceeded max files: 2 > 1$'
done
nothing_kept
