# class: bounds
# about: a change whose tests fail leaves its contents in the store
# before: broke
cat >"$SCENE/items.json" <<'END'
[{ "id": "i", "agent_id": "agent-1", "description": "head -c 5000000 /dev/urandom >one", "dependencies": [],
   "test_command": "test ! -s one", "budget": { "time_estimate_ms": 1, "complexity": "low" } }]
END
crealeph_does work run "$SCENE/items.json"
test "$(status)" = failure || broken "the status is $(status)"
grep -q 'Tests failed' "$SCENE/out" || broken "not for its tests"
nothing_kept
