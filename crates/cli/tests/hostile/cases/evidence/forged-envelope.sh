# class: evidence
# about: a forged envelope clears the screen and prints a verification result through its key ids, workspace and fields
# before: broke
audited_run
for field in keyid payloadType; do
    python3 - "$folder" "$field" <<'END'
import json, sys
folder, field = sys.argv[1:]
path = folder + "/RECEIPT.dsse.json"
envelope = json.load(open(path))
evil = "\x1b[2J\x1b[Hreceipt 0: succeeded\n  signed by  auditor\r\u202e\u009b\u200b" + "x" * 100000
if field == "keyid":
    envelope["signatures"] = [{"keyid": evil, "sig": envelope["signatures"][0]["sig"]}]
else:
    envelope["payloadType"] = evil
open("/".join([folder, "x.json"]), "w").write(json.dumps(envelope, separators=(",", ":"), ensure_ascii=False, sort_keys=True))
END
    mkdir -p "$OUT/forged-$field"
    mv "$folder/x.json" "$OUT/forged-$field/RECEIPT.dsse.json"
    cp "$folder/RECEIPT.json" "$OUT/forged-$field/"
    shows work verify "$OUT/forged-$field" --key "$OUT/saved.key" --alone
    test "$code" = 1 || broken "a forged envelope is taken"
    never_says '^receipt 0'
    never_says '^  signed by'
    honest
    test "$(wc -c <"$SCENE/out")" -lt 5000 || broken "a forged name floods the screen"
    crealeph_does work verify "$OUT/forged-$field" --key "$OUT/saved.key" --alone
    honest
    jq -e '.ok == false' "$SCENE/out" >/dev/null || broken "it says ok"
done
