# class: secrets
# about: the secret in a commit on a branch, and in one that is held
# before: broke
grant_secret
agent_runs 'printf %s "$API_KEY" | base64 >a.txt' --publish branch:agents/x
denied_with 'Secret in change: a.txt'
agent_runs 'printf %s "$API_KEY" | base64 >a.txt' --hold
denied_with 'Secret in change: a.txt'
if git rev-parse -q --verify agents/x >/dev/null; then broken "the branch was made"; fi
nowhere "$(printf %s "$API_KEY" | base64)"
