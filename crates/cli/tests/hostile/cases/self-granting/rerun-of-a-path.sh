# class: self-granting
# about: a recorded run whose task is a path grants that file when it is replayed with the agent run again
# before: broke
cat >crealeph.toml <<'END'
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "if test -r \"$0\"; then echo seen >>a.txt; else echo unseen >>a.txt; fi", "{prompt}"]
END
item "$OUT/private"
crealeph_does work run "$SCENE/items.json"
test "$(status)" = success || broken "the ordinary part did not work"
grep -q unseen a.txt || broken "a file was seen that is not there"
echo "a private line" >"$OUT/private"
run=$(jq -r 'select(.status).receipt_id // empty' "$SCENE/out")
test -n "$run" || run=$(ls .crealeph/runs | grep -v 'owners\|lock\|journal')
crealeph_does work replay "$run" --rerun
test "$code" = 0 || broken "the agent saw more when it was run again"
