# class: trust
# about: someone sends a run with a clone, and the user replays it with the clone's agent run again
# before: broke
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "the ordinary part did not work"
run=$(jq -r 'select(.status).receipt_id' "$SCENE/out")
crealeph_does work export "$run" "$SCENE/exported"
test "$code" = 0 || broken "the run cannot be exported"
git checkout -q -- .
unset CREALEPH_TRUST
XDG_STATE_HOME=$SCENE/other-state
into_clone
crealeph_does work replay "$SCENE/exported/runs/$run" --rerun
refused "crealeph trust $SCENE/clone/crealeph.toml"
crealeph_does work replay "$SCENE/exported/runs/$run"
test "$code" = 0 || broken "a replay without the agent needs no trust"
