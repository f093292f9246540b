# class: secrets
# about: a tool call in whose JSON every character of the secret is escaped: parsed, it is the secret
# before: broke
grant_secret
agent_runs 'units=$(printf %s "$API_KEY" | xxd -p -c 64 | sed "s/../\\\\u00&/g"); printf "{\"tool\":\"http\",\"input\":{\"h\":\"%s\"}}\n" "$units" >>"$CREALEPH_TRACE"; echo x >b.txt'
denied_with 'Secret in report'
nowhere 'bar+7Q9x' '006b\u002d'
