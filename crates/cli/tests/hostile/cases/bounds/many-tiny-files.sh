# class: bounds
# about: thousands of tiny files with max_files = 1 are stored one by one before they are counted
# before: broke
# holds: invariant 3
agent_runs 'mkdir many; cd many; python3 -c "
for number in range(2500): open(str(number), \"w\").write(str(number))"' --max-files 1
denied_for '^Exceeded max files: 2500 > 1$'
nothing_kept
test "$(jq -r 'select(.metrics).metrics.files_touched' "$SCENE/out")" = 2500 || broken "another count in the metrics"
