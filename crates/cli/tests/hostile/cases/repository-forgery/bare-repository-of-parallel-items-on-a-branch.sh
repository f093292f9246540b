# class: repository-forgery
# about: the same with a branch as the goal
# before: broke
item() { printf '{ "id": "%s", "description": "%s", "agent_id": "agent-1", "dependencies": [], "budget": { "time_estimate_ms": 1, "complexity": "low" } }' "$1" "$2"; }
printf '[%s, %s, %s]' "$(item a 'mkdir -p lib; echo ref: refs/heads/main >lib/HEAD')" "$(item b 'mkdir -p lib/objects; echo x >lib/objects/x')" \
    "$(item c 'mkdir -p lib/refs; echo x >lib/refs/x')" >"$SCENE/items.json"
crealeph_does work run "$SCENE/items.json" --agent one --jobs 3 --publish branch:agents/x
test "$(jq -r 'select(.status).status' "$SCENE/out" | grep -c success)" -eq 2 || broken "not two of them"
test "$(git ls-tree -r --name-only agents/x | grep -c '^lib/')" -eq 2 || broken "all parts are on the branch"
