# class: trust
# about: what is shown before the question holds escape sequences, which rewrite the screen
# before: broke
unset CREALEPH_TRUST
cat >crealeph.toml <<'END'
[work.agents."one\u001b[2J"]
agent_id = "agent-1"
command = ["sh", "-c", "evil\u001b[1A\u202e\u200b\n    runs           nothing"]
END
into_clone
crealeph_does work run --agent x 'Do it, please'
refused "crealeph trust $SCENE/clone/crealeph.toml"
if LC_ALL=C grep -q "$(printf '\033')" "$SCENE/err"; then broken "an escape sequence is printed"; fi
if grep -q "$(printf '\342\200\256')" "$SCENE/err"; then broken "a bidirectional character is printed"; fi
if grep -q '^    runs           nothing' "$SCENE/err"; then broken "a line was forged"; fi
