# class: secrets
# about: an agent that fails has the end of its standard error quoted in the receipt
# before: broke
grant_secret
agent_runs 'printf %s "$API_KEY" | xxd -p -c 64 | sed "s/../0x&, /g" >&2; exit 3'
if test "$(status)" != failure; then broken "it should have failed"; fi
nowhere '0x73, 0x6b' '0x73, 0x6b, 0x2d'
grep -q redacted "$SCENE/out" || broken "nothing was redacted"
