# class: bounds
# about: 20,000 tiny files with max_files = 1 are stored one by one before they are counted
# before: broke
started
agent_runs 'mkdir many; seq 20000 | (cd many; xargs touch)' --max-files 1
denied_for '^Exceeded max files: 20000 > 1$'
within 15
nothing_kept
test "$(jq -r 'select(.metrics).metrics.files_touched' "$SCENE/out")" = 20000 || broken "another count in the metrics"
