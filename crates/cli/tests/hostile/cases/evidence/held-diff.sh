# class: evidence
# about: `change.diff` of a held change is altered between the look at it and the approval
# before: broke
agent_runs "echo four >>a.txt; echo said" --hold
run=$(run_of)
folder=$WS/.crealeph/runs/$run
test -f "$folder/held.json" || broken "nothing is held"
cp "$folder/change.diff" "$OUT/before"
sed -i 's/four/harmless/' "$folder/change.diff"
if cmp -s "$folder/change.diff" "$OUT/before"; then broken "the attack changed nothing"; fi
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved"
says "was altered since"
honest
if grep -q -e four -e harmless -e evil a.txt; then broken "it landed"; fi
# It can still be thrown away, or restored and approved.
says 'change.diff'
cp "$OUT/before" "$folder/change.diff"
shows work approve "$run" --reason looked
test "$code" = 0 || broken "the change that was held cannot be approved"
