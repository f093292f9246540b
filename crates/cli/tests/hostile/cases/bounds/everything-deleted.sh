# class: bounds
# about: deleting one folder of 12,000 files is one entry in the view, and 12,000 files of the change
# before: held
mkdir many
seq 12000 | (cd many && xargs touch)
started
agent_runs 'rm -r many' --max-files 11999
denied_for '^Exceeded max files: 12000 > 11999$'
within 20
test "$(ls many | wc -l)" = 12000 || broken "files are gone"
