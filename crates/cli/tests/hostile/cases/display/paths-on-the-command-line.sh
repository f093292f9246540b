# class: display
# about: a script passes names it found in a clone to our commands, whose errors quote them
# before: broke
bad="x$ESC[2K$CR$RLO
error: fine"
for words in "validate agent-output" "work plan" "work show" "work diff" "work replay" "work verify" "ledger get" \
    "snapshot --from" "policy explain" "execution show" "review show" "work run --agent"; do
    # shellcheck disable=SC2086
    shows $words "$bad"
    test "$code" != 0 || broken "$words took it"
    never_says '^error: fine'
    honest
done
shows "$bad"
honest
shows work run --publish "$bad" --agent one true
honest
