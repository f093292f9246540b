# class: host-execution
# about: the hook lands while a change for a branch waits, and the approval moves the branch
# before: broke
# holds: invariant 19
git config core.hooksPath hooks
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x --hold
run=$(jq -r 'select(.run).run' "$SCENE/out" | head -n 1)
agent_runs "mkdir hooks; $(payload hooks/reference-transaction)"
landed
crealeph_does work approve "$run" --reason fine
test "$code" -eq 0 || broken "the approval failed"
git rev-parse -q --verify agents/x >/dev/null || broken "nothing was committed"
safe
