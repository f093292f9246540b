# class: host-execution
# about: the hook itself awaits approval, and a branch is written after the approval
# before: broke
git config core.hooksPath hooks
agent_runs "mkdir hooks; $(payload hooks/reference-transaction); $(payload hooks/post-index-change)" --hold
run=$(jq -r 'select(.run).run' "$SCENE/out" | head -n 1)
crealeph_does work approve "$run" --reason fine
test -x hooks/reference-transaction || broken "the scene is not set"
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
crealeph_does work replay "$(jq -r 'select(.receipt_id).receipt_id' "$SCENE/out")"
test "$code" -eq 0 || broken "the replay failed"
crealeph_does work export "$(crealeph work status | jq -r 'select(.run).run' | tail -n 1)" "$SCENE/export"
safe
