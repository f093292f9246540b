# class: bounds
# about: a change that conflicts when it is committed leaves its contents and two states in the store
# before: broke
(while ! test -e .crealeph/runs/journal.jsonl; do sleep 0.1; done; sleep 1; echo mine >>a.txt) &
agent_runs 'echo theirs >>a.txt; head -c 5000000 /dev/urandom >one; sleep 4'
wait
grep -q 'Conflict' "$SCENE/out" || broken "no conflict"
nothing_kept
