# class: evidence
# about: `result.json` of a run is altered after the fact
# before: broke
audited_run
cp "$folder/result.json" "$OUT/before"
chmod u+w "$folder/result.json"
sed -i 's/"tests_passed"/"tests_lost"/;s/tested/all good/' "$folder/result.json"
if cmp -s "$folder/result.json" "$OUT/before"; then broken "the attack changed nothing"; fi
found_out "$folder" 'result.json'
found_out "$folder/RECEIPT.json" 'result.json'
shows work show "$run"
test "$code" = 1 || broken "an altered result is shown as if nothing were"
says 'warning: this is not what run'
