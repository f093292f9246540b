# class: secrets
# about: what no state can hold is refused by name, and the name is the secret
# before: broke
grant_secret
agent_runs 'mkdir sk-live-Zm9v; mkfifo "$API_KEY"'
if test "$(status)" != denied; then broken "a pipe landed"; fi
nowhere 'bar+7Q9x'
