# class: foreign-state
# about: a clone brings a .crealeph that is itself a link to a folder outside, where the ledger with its signing key is then made
# before: broke
mkdir "$OUT/folder"
ln -s "$OUT/folder" .crealeph
agent_runs 'echo x >>a.txt'
test -z "$(ls -A "$OUT/folder")" || broken "something was made outside"
refused ".crealeph"
crealeph_does ledger init
test -z "$(ls -A "$OUT/folder")" || broken "a ledger was made outside"
refused ".crealeph"
