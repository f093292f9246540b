# class: evidence
# about: the staged content of a held change is exchanged before the approval
# before: broke
agent_runs "echo four >>a.txt; echo said" --hold
run=$(run_of)
folder=$WS/.crealeph/runs/$run
test -f "$folder/held.json" || broken "nothing is held"
shows work diff "$run"
says '+four'
for slot in .crealeph/publish/*/slots/*; do chmod u+w "$slot"; printf 'evil\n' >>"$slot"; done
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved"
says "was altered since"
honest
if grep -q -e four -e harmless -e evil a.txt; then broken "it landed"; fi
# It can still be thrown away, or restored and approved.
says 'a.txt'
shows work reject "$run" --reason altered
test "$code" = 0 || broken "it cannot be rejected"
