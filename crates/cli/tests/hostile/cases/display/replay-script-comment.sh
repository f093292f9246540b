# class: display
# about: an item's id reorders or hides a line of the replay script that an auditor reads before running it
# before: broke
cat >"$OUT/items.json" <<END
[{ "id": "a\u2028rm -rf ~\u202e\u200b", "agent_id": "agent-1", "description": "echo x >>a.txt", "dependencies": [],
   "budget": { "time_estimate_ms": 1, "complexity": "low" } }]
END
crealeph_does work run "$OUT/items.json"
test "$code" = 0 || broken "the run failed"
cp .crealeph/runs/"$(run_of)"/replay-agent-1.sh "$SCENE/out"
says 'a\u{2028}rm'
honest
