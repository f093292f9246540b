# class: evidence
# about: a receipt in the middle of the chain is removed, doubled, or moved to another folder
# before: broke
audited_run
first=$folder
agent_runs 'echo five >>a.txt'
second=$WS/.crealeph/runs/$(run_of)
agent_runs 'echo six >>a.txt'
third=$WS/.crealeph/runs/$(run_of)
crealeph_does work verify "$third" --key "$OUT/saved.key"
test "$code" = 0 || broken "an honest chain does not verify"
mv "$second" "$OUT/second"
found_out "$third" 'missing'
mv "$OUT/second" "$WS/.crealeph/runs/01a1df32-e6ce-76d6-98ae-f3e0c638645d"
found_out "$third" 'holds the receipt of run'
mv "$WS/.crealeph/runs/01a1df32-e6ce-76d6-98ae-f3e0c638645d" "$second"
cp -r "$second" "$WS/.crealeph/runs/01a1df32-e6ce-76d6-98ae-f3e0c638645d"
found_out "$third" 'receipt'
