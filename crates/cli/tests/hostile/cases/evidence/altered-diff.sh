# class: evidence
# about: `change.diff` of a run is altered after the fact
# before: broke
audited_run
cp "$folder/change.diff" "$OUT/before"
chmod u+w "$folder/change.diff"
sed -i 's/four/harmless/' "$folder/change.diff"
if cmp -s "$folder/change.diff" "$OUT/before"; then broken "the attack changed nothing"; fi
found_out "$folder" 'change.diff'
found_out "$folder/RECEIPT.json" 'change.diff'
shows work diff "$run"
test "$code" = 1 || broken "an altered diff is shown as if nothing were"
says 'warning: this is not what run'
