# class: evidence
# about: a change held for one branch is sent to another by rewriting the journal
# before: broke
agent_runs "echo four >>a.txt" --hold --publish branch:agents/review
run=$(run_of)
test -f ".crealeph/runs/$run/held.json" || broken "nothing is held"
git branch release
tip=$(git rev-parse release)
sed -i "s#agents/review#release#" .crealeph/runs/journal.jsonl
grep -q '"release"' .crealeph/runs/journal.jsonl || broken "the attack changed nothing"
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved"
says "was altered since"
test "$(git rev-parse release)" = "$tip" || broken "the other branch moved"
