# class: foreign-state
# about: a clone brings a lock that is a link to where nothing is, and a file is made there
# before: broke
mkdir .crealeph
ln -s "$OUT/pwned" .crealeph/lock
agent_runs 'echo x >>a.txt'
safe
refused ".crealeph/lock\` is a link"
