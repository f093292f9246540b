# class: evidence
# about: the test log in the receipt is rewritten, and the receipt's own hash with it
# before: held
# fails without: comparing the receipt with the signed one
audited_run
python3 - "$folder/RECEIPT.json" <<'END'
import sys
path = sys.argv[1]
text = open(path).read()
assert "tested" in text
open(path, "w").write(text.replace("tested", "TESTED"))
END
found_out "$folder" 'test_log'
