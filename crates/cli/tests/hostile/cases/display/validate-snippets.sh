# class: display
# about: a document that is judged is quoted line by line, with what its author put into it
# before: broke
printf '{ "ok": true, "x%s%s": "\177%s", "executionId": "%s" }' "$RLO" "$ZWSP" "$CSI" "a$LRM" >"$OUT/doc.json"
shows validate agent-output "$OUT/doc.json"
test "$code" = 1 || broken "it is valid"
says '\u{202e}'
honest
crealeph_does validate agent-output "$OUT/doc.json" --json
honest
jq -e --arg key "x$RLO$ZWSP" '[.violations[].pointer] | index("/" + $key)' "$SCENE/out" >/dev/null || broken "the value changed"
