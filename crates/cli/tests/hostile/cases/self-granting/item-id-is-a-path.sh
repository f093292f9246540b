# class: self-granting
# about: the prompt template has the item's id, and the id is the path of a file outside
# before: broke
echo "a private line" >"$OUT/private"
cat >crealeph.toml <<'END'
[work.agents.one]
agent_id = "agent-1"
prompt = "{id}"
command = ["sh", "-c", "cat \"$0\" >got.txt 2>/dev/null; echo ran >>a.txt", "{prompt}"]
END
item "Harmless words" "$OUT/private"
crealeph_does work run "$SCENE/items.json"
test "$(status)" = success || broken "the ordinary part did not work"
if grep -q private got.txt; then broken "the agent read what its item's id named"; fi
