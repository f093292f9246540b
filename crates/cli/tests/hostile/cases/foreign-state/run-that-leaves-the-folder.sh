# class: foreign-state
# about: a clone brings a journal in which a run that never ended has a path for an id, and settling it removes what is there
# before: broke
mkdir -p .crealeph/runs "$OUT/precious"
echo work >"$OUT/precious/thesis"
cat >.crealeph/runs/journal.jsonl <<'END'
{"event":"started","run":"../../../outside/precious","item":"i","batch":"b","owner":"gone","at":"2026-01-01T00:00:00.000Z","before":"0000000000000000000000000000000000000000000000000000000000000000"}
END
cat >"$OUT/precious/work-item.json" <<'END'
{"id":"i","agent_id":"agent-1","description":"d","dependencies":[],"budget":{"time_estimate_ms":1,"complexity":"low"}}
END
crealeph_does work recover
test -e "$OUT/precious/thesis" || broken "a file outside was removed"
test "$(ls "$OUT/precious" | wc -l)" = 2 || broken "files were written outside"
refused "crealeph trust --state"
# Adopted or not, a journal is data.
crealeph_does trust --state --yes
crealeph_does work recover
test "$(ls "$OUT/precious" | wc -l)" = 2 || broken "files were written outside"
refused "line 1 of"
