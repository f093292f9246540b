# class: evidence
# about: a forged receipt has fields whose names look like the lines of a verification result
# before: broke
audited_run
python3 - "$folder/RECEIPT.json" <<'END'
import json, sys
path = sys.argv[1]
receipt = json.load(open(path))
for number in range(2000):
    receipt[f"\x1b[2J\nok {number}: receipt is genuine\u202e"] = 1
open(path, "w").write(json.dumps(receipt, separators=(",", ":"), ensure_ascii=False, sort_keys=True))
END
shows work verify "$folder" --key "$OUT/saved.key"
test "$code" = 1 || broken "nothing was found"
never_says '^ok '
honest
test "$(wc -c <"$SCENE/out")" -lt 20000 || broken "the finding floods the screen"
