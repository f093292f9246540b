# class: foreign-state
# about: a clone brings a journal that is a link, and the next run appends to the file it leads to
# before: broke
mkdir -p .crealeph/runs
ln -s "$OUT/canary" .crealeph/runs/journal.jsonl
chmod -R go-w .crealeph
: >"$OUT/canary"
agent_runs 'echo x >>a.txt'
test ! -s "$OUT/canary" || broken "the journal was written to a file outside"
refused ".crealeph/runs/journal.jsonl\` is a link"
