# class: self-granting
# about: the text of a task is the path of a file outside, which the agent is then shown as if the command named it
# before: broke
# holds: invariant 15
echo "a private line" >"$OUT/private"
cat >crealeph.toml <<'END'
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "cat \"$0\" >got.txt 2>/dev/null; echo ran >>a.txt", "{prompt}"]
END
item "$OUT/private"
crealeph_does work run "$SCENE/items.json"
test "$(status)" = success || broken "the ordinary part did not work"
if grep -q private got.txt; then broken "the agent read what its task's text named"; fi
