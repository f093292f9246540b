# class: foreign-state
# about: a clone brings a folder of owners that is a link, and the sweep removes everything where it leads
# before: broke
mkdir -p .crealeph/runs "$OUT/precious"
echo work >"$OUT/precious/thesis"
ln -s "$OUT/precious" .crealeph/runs/owners
agent_runs 'echo x >>a.txt'
test -e "$OUT/precious/thesis" || broken "files outside were removed"
refused ".crealeph/runs/owners\` is a link"
