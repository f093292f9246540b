# class: evidence
# about: the journal is rewritten to call a denied run a success
# before: broke
agent_runs 'mkdir -p .github/workflows; echo x >.github/workflows/ci.yml'
test "$(status)" = denied || broken "it was not denied"
run=$(run_of)
sed -i 's/"status":"denied"/"status":"success"/' .crealeph/runs/journal.jsonl
shows work status
shows work show "$run"
test "$code" = 1 || broken "a denied run is shown as a success"
says 'warning: this is not what run'
