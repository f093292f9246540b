# class: repository-forgery
# about: three items of one level each add a part that is harmless alone
# before: broke
item() { printf '{ "id": "%s", "description": "%s", "agent_id": "agent-1", "dependencies": [], "budget": { "time_estimate_ms": 1, "complexity": "low" } }' "$1" "$2"; }
printf '[%s, %s, %s]' "$(item a 'mkdir -p lib; echo ref: refs/heads/main >lib/HEAD')" "$(item b 'mkdir -p lib/objects; echo x >lib/objects/x')" \
    "$(item c 'mkdir -p lib/refs; echo x >lib/refs/x')" >"$SCENE/items.json"
crealeph_does work run "$SCENE/items.json" --agent one --jobs 3
test "$(jq -r 'select(.status).status' "$SCENE/out" | grep -c success)" -eq 2 || broken "not two of them"
test "$(jq -r 'select(.status == "denied").denial_reason' "$SCENE/out" | grep -c 'bare repository')" -eq 1 || broken "none was denied"
