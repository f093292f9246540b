# class: display
# about: escaping for a person must not break what programs take byte by byte: an export with odd names still verifies
# before: broke
crealeph_does ledger init
printf '{"robotId":"shop%s17","module":"m","source":"s","type":"signal","state":"planned","payload":{"t":"\302\233%s"}}\n' "$RLO" "$ZWSP" >"$OUT/entries.jsonl"
crealeph_does ledger append "$OUT/entries.jsonl"
crealeph_does ledger checkpoint
crealeph_does ledger key
cp "$SCENE/out" "$OUT/saved.key"
crealeph_does ledger export
cp "$SCENE/out" "$OUT/export.jsonl"
grep -q "$RLO" "$OUT/export.jsonl" || broken "the export is not exact"
crealeph_does ledger verify "$OUT/export.jsonl" --key "$OUT/saved.key"
test "$code" = 0 || broken "the export does not verify"
crealeph_does ledger list --type signal
id=$(jq -r .id "$SCENE/out")
crealeph_does ledger prove "$id"
cp "$SCENE/out" "$OUT/proof.json"
crealeph_does ledger verify-proof "$OUT/proof.json" --key "$OUT/saved.key"
test "$code" = 0 || broken "the proof does not verify"
shows ledger export
honest
shows ledger prove "$id"
honest
