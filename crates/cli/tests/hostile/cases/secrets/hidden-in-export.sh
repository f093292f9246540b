# class: secrets
# about: an export that is given to someone else holds what was hidden, tracked by git or not
# before: broke
echo 'PASSWORD=hunter2hunter2' >.env; echo 'PASSWORD=hunter3hunter3' >.env.local; git add -f .env; git commit -qm env
agent_runs 'echo x >b.txt'
succeeded
run=$(jq -r 'select(.receipt_id).receipt_id' "$SCENE/out")
crealeph_does work export "$run" "$SCENE/tmp/exported"
test "$code" = 0 || broken "it could not be exported"
if grep -rqa 'hunter[23]hunter' "$SCENE/tmp/exported"; then broken "the export holds it"; fi
crealeph_does work replay "$SCENE/tmp/exported/runs/$run"
test "$code" = 0 || broken "the export could not be replayed"
jq -e '.ok and (.withheld | length == 2)' "$SCENE/out" >/dev/null || broken "the replay does not say what was withheld"
crealeph_does work verify "$SCENE/tmp/exported/runs/$run"
test "$code" = 0 || broken "the export could not be verified"
