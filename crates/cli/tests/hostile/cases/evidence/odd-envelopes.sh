# class: evidence
# about: envelopes that are huge, deep, empty or half, meant to exhaust or crash the verifier
# before: broke
audited_run
mkdir "$OUT/odd"
cp "$folder/RECEIPT.json" "$OUT/odd/"
check() {
    code=0
    (ulimit -v 3000000; timeout 60 crealeph work verify "$OUT/odd" --key "$OUT/saved.key" --alone) >"$SCENE/out" 2>"$SCENE/err" </dev/null || code=$?
    case $code in 1 | 2) ;; *) broken "$1 ended with $code" ;; esac
    if grep -q "panicked at" "$SCENE/err"; then broken "$1 made it panic"; fi
}
: >"$OUT/odd/RECEIPT.dsse.json"; check empty
printf '{}' >"$OUT/odd/RECEIPT.dsse.json"; check object
printf 'null' >"$OUT/odd/RECEIPT.dsse.json"; check null
printf '\377\376\000' >"$OUT/odd/RECEIPT.dsse.json"; check bytes
head -c 200 "$folder/RECEIPT.dsse.json" >"$OUT/odd/RECEIPT.dsse.json"; check half
python3 -c 'print("[" * 5000000, end="")' >"$OUT/odd/RECEIPT.dsse.json"; check deep
python3 -c 'print("[" + "1," * 50000000 + "1]", end="")' >"$OUT/odd/RECEIPT.dsse.json"; check wide
truncate -s 1G "$OUT/odd/RECEIPT.dsse.json"; check large
python3 - "$folder/RECEIPT.dsse.json" "$OUT/odd/RECEIPT.dsse.json" <<'END'
import json, sys
envelope = json.load(open(sys.argv[1]))
envelope["signatures"] = envelope["signatures"] * 1000
open(sys.argv[2], "w").write(json.dumps(envelope, separators=(",", ":"), sort_keys=True))
END
check "many signatures"
