# class: secrets
# about: the agent scrambles its secret into the change, and the test turns it back and prints it
# before: broke
grant_secret
agent_runs 'printf %s "$API_KEY" | rev >scrambled; echo x >b.txt' --test 'rev scrambled; echo ran'
if ! grep -q 'ran' "$SCENE/out"; then broken "the test did not run"; fi
nowhere 'sk-live-Zm9v/bar'
