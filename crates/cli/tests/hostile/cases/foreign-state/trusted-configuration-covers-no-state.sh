# class: foreign-state
# about: the configuration of a clone is trusted, and its .crealeph hopes to be trusted with it
# before: broke
unset CREALEPH_TRUST
mkdir -p .crealeph/runs
echo '{"event":"began","batch":"forged","at":"2026-01-01T00:00:00.000Z"}' >.crealeph/runs/journal.jsonl
crealeph_does trust --yes
test "$code" = 0 || broken "the configuration cannot be trusted"
agent_runs 'echo x >>a.txt'
refused "crealeph trust --state"
