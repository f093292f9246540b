# class: secrets
# about: an export of a run by an agent with a stricter list, of a state that another run had kept
# before: broke
echo 'PASSWORD=hunter2hunter2' >notes.key
cat >>crealeph.toml <<'END'
hide = []
[work.agents.two]
agent_id = "agent-2"
command = ["sh", "-c", "{prompt}"]
END
git add -A; git commit -qm two
agent_runs 'echo x >b.txt'
succeeded
crealeph_does work run --agent two 'ls >seen.txt'
succeeded
crealeph_does work export "$(jq -r 'select(.receipt_id).receipt_id' "$SCENE/out")" "$SCENE/tmp/exported"
test "$code" = 0 || broken "it could not be exported"
if grep -rqa 'hunter2hunter2' "$SCENE/tmp/exported"; then broken "the export holds it"; fi
