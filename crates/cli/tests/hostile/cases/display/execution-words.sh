# class: display
# about: a Builder run is asked for with an executionId and objective that reorder the report and its reasons
# before: broke
crealeph_does init "$OUT/b" --agent shell
cd "$OUT/b"
crealeph_does ledger init
crealeph_does ledger append entries.jsonl
jq -c --arg id "e$RLO${ZWSP}1" '.executionId = $id' request.json >odd.json
shows build odd.json
says 'e\u{202e}\u{200b}1'
honest
for words in "execution list" "execution why" "execution show" "execution replay" "robot status shop-17"; do
    # shellcheck disable=SC2086
    shows $words
    honest
    # shellcheck disable=SC2086
    crealeph_does $words
    honest
done
