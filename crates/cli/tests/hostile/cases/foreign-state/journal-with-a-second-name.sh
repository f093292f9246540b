# class: foreign-state
# about: a journal is a second name of a file outside, which the next run appends to
# before: broke
: >"$OUT/canary"
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "the ordinary part did not work"
ln -f "$OUT/canary" .crealeph/runs/journal.jsonl
agent_runs 'echo y >>a.txt'
test ! -s "$OUT/canary" || broken "the journal was written to a file outside"
refused "another hard link"
