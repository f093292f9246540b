# class: secrets
# about: the input of a reported tool call holds the secret, and the receipt would too
# before: broke
grant_secret
agent_runs 'printf "{\"tool\":\"http\",\"input\":{\"header\":\"%s\"}}\n" "$API_KEY" >>"$CREALEPH_TRACE"; echo x >b.txt'
denied_with 'Secret in report'
nowhere 'bar+7Q9x'
