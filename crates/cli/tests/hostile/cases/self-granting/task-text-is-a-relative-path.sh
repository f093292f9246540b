# class: self-granting
# about: the text of a task is a path that leaves the configuration's folder
# before: broke
echo "a private line" >"$OUT/private"
cat >crealeph.toml <<'END'
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "cat \"$SCENE_OUT/private\" >got.txt 2>/dev/null; echo ran >>a.txt", "sh", "{prompt}"]
END
printf 'env = { SCENE_OUT = "%s" }\n' "$OUT" >>crealeph.toml
item "../outside/private"
crealeph_does work run "$SCENE/items.json"
test "$(status)" = success || broken "the ordinary part did not work"
if grep -q private got.txt; then broken "the agent read what its task's text named"; fi
