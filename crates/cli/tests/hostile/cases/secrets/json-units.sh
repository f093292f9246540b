# class: secrets
# about: every character of the secret as \uXXXX in a JSON file
# before: broke
grant_secret
agent_runs 'printf %s "$API_KEY" | xxd -p -c 64 | sed "s/../\\\\u00&/g; s/.*/{\"k\":\"&\"}/" >data.json; grep -q u0073 data.json'
denied_with 'Secret in change: data.json'
nowhere 'u0073\u006b\u002d'
