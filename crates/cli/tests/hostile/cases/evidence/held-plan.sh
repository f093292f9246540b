# class: evidence
# about: the plan of a held change is rewritten, its checksum too, to change another file
# before: broke
agent_runs "echo four >>a.txt; echo said" --hold
run=$(run_of)
folder=$WS/.crealeph/runs/$run
test -f "$folder/held.json" || broken "nothing is held"
python3 -c 'import blake3' 2>/dev/null || true
plan=$(echo .crealeph/publish/*/held)
test -f "$plan" || broken "there is no plan"
# The checksum is no secret: take the plan of another held change whole, as we wrote it.
agent_runs "echo evil >>src/b.txt" --hold
other=$(run_of)
test "$other" != "$run" || broken "no second change is held"
set -- .crealeph/publish/*/held
test $# = 2 || broken "two plans are expected"
cp "$1" "$OUT/one"
cp "$2" "$1"
cp "$OUT/one" "$2"
one=$(dirname "$1")/slots two=$(dirname "$2")/slots
mv "$one" "$OUT/slots"; mv "$two" "$one"; mv "$OUT/slots" "$two"
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved"
says "was altered since"
honest
if grep -q -e four -e harmless -e evil a.txt; then broken "it landed"; fi
# It can still be thrown away, or restored and approved.
says 'plan'
if grep -q evil src/b.txt; then broken "another change landed"; fi
