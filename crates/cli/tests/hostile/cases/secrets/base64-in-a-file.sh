# class: secrets
# about: the secret lands in base64, not at the start of a group
# before: broke
grant_secret
agent_runs 'printf "x%s" "$API_KEY" | base64 >a.txt'
denied_with 'Secret in change: a.txt'
nowhere "$(printf 'x%s' "$API_KEY" | base64 | cut -c5-28)"
