# class: display
# about: a tenant's name in an export, and the names in a key file, are quoted where they do not fit
# before: broke
TENANT="t$RLO$ZWSP"
crealeph_does ledger init
printf '{"robotId":"r","module":"m","source":"s","type":"signal","state":"planned","payload":{}}\n' >"$OUT/entries.jsonl"
crealeph_does ledger append "$OUT/entries.jsonl" --tenant "$TENANT"
test "$code" = 0 || broken "nothing was appended"
crealeph_does ledger export --tenant "$TENANT"
cp "$SCENE/out" "$OUT/export.jsonl"
shows ledger import "$OUT/export.jsonl"
test "$code" != 0 || broken "it took another tenant's export"
honest
shows ledger verify "$OUT/export.jsonl"
says 't\u{202e}\u{200b}'
honest
shows ledger stats --tenant "$TENANT"
honest
shows ledger checkpoint --tenant "$TENANT"
honest
shows ledger key --tenant "$TENANT"
honest
printf 'name%s%s[2J+0+AAAA\n' "$ESC" "$RLO" >"$OUT/bad.key"
shows ledger verify "$OUT/export.jsonl" --key "$OUT/bad.key"
honest
