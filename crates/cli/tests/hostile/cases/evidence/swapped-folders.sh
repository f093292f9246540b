# class: evidence
# about: the folders of two runs change places, so that the one an auditor asks for is another
# before: broke
audited_run
first=$folder
agent_runs 'echo five >>a.txt'
second=$WS/.crealeph/runs/$(run_of)
mv "$first" "$OUT/x"
mv "$second" "$first"
mv "$OUT/x" "$second"
found_out "$first" 'holds the receipt of run'
found_out "$second" 'holds the receipt of run'
shows work show "${first##*/}"
test "$code" = 1 || broken "another run is shown as this one"
mv "$second" "$OUT/x"
mv "$first" "$second"
mv "$OUT/x" "$first"
rm -rf "$first"
ln -s "$second" "$first"
found_out "$first" 'holds the receipt of run'
