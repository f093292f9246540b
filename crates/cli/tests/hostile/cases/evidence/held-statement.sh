# class: evidence
# about: the statement of a held change is removed or forged, so that nothing is left to compare with
# before: broke
agent_runs "echo four >>a.txt; echo said" --hold
run=$(run_of)
folder=$WS/.crealeph/runs/$run
test -f "$folder/held.json" || broken "nothing is held"
cp "$folder/HELD.dsse.json" "$OUT/kept" 2>/dev/null || broken "nothing is stated"
rm "$folder/HELD.dsse.json"
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved"
says "was altered since"
honest
if grep -q -e four -e harmless -e evil a.txt; then broken "it landed"; fi
# It can still be thrown away, or restored and approved.
payload=$(jq -r .payload "$OUT/kept" | base64 -d | jq -cj '.item = "other"' | base64 -w0)
jq -cj --arg payload "$payload" '.payload = $payload' "$OUT/kept" >"$folder/HELD.dsse.json"
shows work approve "$run" --reason looked
test "$code" = 1 || broken "it was approved with a forged statement"
says 'HELD.dsse.json'
# The signed statement of what is held is no receipt.
cp "$OUT/kept" "$OUT/RECEIPT.dsse.json"
jq -cj .receipt "$folder/held.json" >"$OUT/RECEIPT.json"
shows work verify "$OUT/RECEIPT.json" --alone
test "$code" = 1 || broken "a change that never landed has a receipt"
