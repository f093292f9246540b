# class: evidence
# about: `stdout.txt` of a run is altered after the fact
# before: broke
audited_run
cp "$folder/stdout.txt" "$OUT/before"
chmod u+w "$folder/stdout.txt"
sed -i 's/said/nothing/' "$folder/stdout.txt"
if cmp -s "$folder/stdout.txt" "$OUT/before"; then broken "the attack changed nothing"; fi
found_out "$folder" 'stdout.txt'
found_out "$folder/RECEIPT.json" 'stdout.txt'
