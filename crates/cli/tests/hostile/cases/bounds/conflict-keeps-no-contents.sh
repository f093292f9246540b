# class: bounds
# about: a change that conflicts when it is committed leaves its contents and two states in the store
# before: broke
agent_runs 'echo theirs >>a.txt; head -c 5000000 /dev/urandom >one' --test 'exit 0'
test "$(status)" = success || broken "the ordinary part did not work"
git add -A && git commit -qm next
rm -r .crealeph
# Someone saves the file while the tests run.
(while ! grep -qs sleep .crealeph/runs/journal.jsonl .crealeph/runs/*/work-item.json; do sleep 0.1; done; sleep 2; echo mine >>a.txt) &
agent_runs 'echo theirs >>a.txt; head -c 5000000 /dev/urandom >two' --test 'sleep 4'
wait
grep -q 'Conflict' "$SCENE/out" || broken "no conflict"
nothing_kept
