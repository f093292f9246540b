# class: evidence
# about: a file of a run is replaced by a link or a pipe, which would be followed or never end
# before: broke
audited_run
mv "$folder/change.diff" "$OUT/change.diff"
ln -s "$OUT/change.diff" "$folder/change.diff"
found_out "$folder" 'change.diff'
rm "$folder/change.diff"
mkfifo "$folder/change.diff"
found_out "$folder" 'change.diff'
rm "$folder/change.diff"
cp "$OUT/change.diff" "$folder/change.diff"
mv "$folder/RECEIPT.dsse.json" "$OUT/kept.dsse"
mkfifo "$folder/RECEIPT.dsse.json"
code=0
timeout 20 crealeph work verify "$folder" --key "$OUT/saved.key" >"$SCENE/out" 2>"$SCENE/err" </dev/null || code=$?
test "$code" = 2 || broken "verifying a pipe ended with $code"
