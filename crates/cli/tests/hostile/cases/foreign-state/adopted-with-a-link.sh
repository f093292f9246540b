# class: foreign-state
# about: the user adopts a .crealeph without a look, deep in which is a link
# before: broke
mkdir -p .crealeph/objects/aa
ln -s "$OUT/canary" .crealeph/objects/aa/bb
crealeph_does trust --state --yes
refused ".crealeph/objects/aa/bb\` is a link"
agent_runs 'echo x >>a.txt'
refused "crealeph trust --state"
