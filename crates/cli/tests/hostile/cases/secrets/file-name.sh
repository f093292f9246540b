# class: secrets
# about: the secret is the name of a file, as it is and in base64
# before: broke
grant_secret
agent_runs 'mkdir -p "d/${API_KEY%%/*}"; echo x >"d/$API_KEY"'
denied_with 'Secret in change: d/[redacted]'
nowhere 'bar+7Q9x'
agent_runs 'echo x >"$(printf %s "$API_KEY" | base64 | tr "+/" "-_")"'
denied_with 'Secret in change: [redacted]'
