# class: display
# about: ids and descriptions of a list of work items that someone sent carry bidirectional and invisible characters
# before: broke
cat >"$OUT/items.json" <<END
[{ "id": "fix\u202e\u200b\u2028one: success", "agent_id": "agent-1", "description": "true # \u001b]0;owned\u0007\u009b2J", "dependencies": [],
   "budget": { "time_estimate_ms": 1, "complexity": "low" } },
 { "id": "b", "agent_id": "agent-1", "description": "true", "dependencies": ["no\u202esuch"],
   "budget": { "time_estimate_ms": 1, "complexity": "low" } }]
END
shows work plan "$OUT/items.json"
says 'fix\u{202e}\u{200b}\u{2028}one'
honest
shows work run "$OUT/items.json"
says 'fix\u{202e}\u{200b}\u{2028}one'
honest
shows work status
honest
shows work show
honest
crealeph_does work status
honest
