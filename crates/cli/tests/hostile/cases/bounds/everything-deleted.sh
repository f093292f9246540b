# class: bounds
# about: deleting one folder of 2,600 files is one entry in the view, and 2,600 files of the change
# before: held
# fails without: counting what is gone
mkdir many
seq 2600 | (cd many && xargs touch)
started
agent_runs 'rm -r many' --max-files 2599
denied_for '^Exceeded max files: 2600 > 2599$'
within 60
test "$(ls many | wc -l)" = 2600 || broken "files are gone"
