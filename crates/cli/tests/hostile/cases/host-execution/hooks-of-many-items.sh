# class: host-execution
# about: a list of items goes to a branch, with a hook of every kind in the tree
# before: broke
git config core.hooksPath hooks
mkdir hooks
for hook in applypatch-msg pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-merge pre-auto-gc post-rewrite \
    reference-transaction post-index-change fsmonitor-watchman update pre-receive post-update; do
    printf '#!/bin/sh\necho %s >%s/pwned\n' "$hook" "$OUT" >"hooks/$hook"
    chmod +x "hooks/$hook"
done
item() { printf '{ "id": "%s", "description": "%s", "agent_id": "agent-1", "dependencies": [], "budget": { "time_estimate_ms": 1, "complexity": "low" } }' "$1" "$2"; }
printf '[%s, %s]' "$(item a 'echo a >a')" "$(item b 'echo b >b')" >"$SCENE/items.json"
crealeph_does work run "$SCENE/items.json" --agent one --publish branch:agents/x
test "$code" -eq 0 || broken "ended with $code"
test "$(git -c core.hooksPath=/dev/null rev-list --count main..agents/x)" -eq 2 || broken "not two commits"
safe
