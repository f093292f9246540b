# class: evidence
# about: `work-item.json` of a run is altered after the fact
# before: broke
audited_run
cp "$folder/work-item.json" "$OUT/before"
chmod u+w "$folder/work-item.json"
sed -i 's/four/harmless/' "$folder/work-item.json"
if cmp -s "$folder/work-item.json" "$OUT/before"; then broken "the attack changed nothing"; fi
found_out "$folder" 'work-item.json'
found_out "$folder/RECEIPT.json" 'work-item.json'
