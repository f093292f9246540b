# class: display
# about: names and payloads in ledger entries, which other systems append, are shown by every command that lists them
# before: broke
crealeph_does ledger init
for kind in signal fusion idea copy; do
    printf '{"robotId":"shop%s%s17","module":"m%s","source":"s","type":"%s","state":"planned%s","payload":{"t":"\\u001b[2J\\u009b%s"}}\n' \
        "$RLO" "$ZWSP" "$LRM" "$kind" "$RLO" "$RLO"
done >"$OUT/entries.jsonl"
crealeph_does ledger append "$OUT/entries.jsonl"
test "$code" = 0 || broken "nothing was appended"
robot="shop$RLO${ZWSP}17"
for words in "ledger list" "ledger tail --once" "review list" "execution list"; do
    # shellcheck disable=SC2086
    shows $words
    honest
    # shellcheck disable=SC2086
    crealeph_does $words
    honest
done
shows ledger list
says 'shop\u{202e}\u{200b}17'
shows robot status "$robot"
honest
crealeph_does robot status "$robot"
honest
shows snapshot "$robot"
honest
crealeph_does snapshot "$robot"
honest
crealeph_does ledger list --type signal
id=$(jq -r .id "$SCENE/out")
shows ledger get "$id"
honest
says '\u202e'
shows ledger lineage "$id"
honest
