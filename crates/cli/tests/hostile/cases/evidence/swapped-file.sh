# class: evidence
# about: the diff of one run is put into the folder of another; both are files that we wrote
# before: broke
audited_run
first=$folder
agent_runs 'echo harmless >>src/b.txt'
second=$WS/.crealeph/runs/$(run_of)
cp "$second/change.diff" "$first/change.diff"
found_out "$first" 'change.diff'
cp "$second/RECEIPT.dsse.json" "$first/RECEIPT.dsse.json"
found_out "$first" 'receipt'
