# class: evidence
# about: the journal's line of a held change is rewritten to name the publish of another one
# before: broke
agent_runs "echo four >>a.txt; echo said" --hold
run=$(run_of)
folder=$WS/.crealeph/runs/$run
test -f "$folder/held.json" || broken "nothing is held"
agent_runs "echo evil >>src/b.txt" --hold
python3 - "$run" <<'END'
import json, sys
path = ".crealeph/runs/journal.jsonl"
lines = [json.loads(line) for line in open(path)]
held = [line for line in lines if line["event"] == "held"]
assert len(held) == 2
held[0]["publish"], held[1]["publish"] = held[1]["publish"], held[0]["publish"]
open(path, "w").write("".join(json.dumps(line) + "\n" for line in lines))
END
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved"
says "was altered since"
honest
if grep -q -e four -e harmless -e evil a.txt; then broken "it landed"; fi
# It can still be thrown away, or restored and approved.
if grep -q evil src/b.txt; then broken "another change landed"; fi
