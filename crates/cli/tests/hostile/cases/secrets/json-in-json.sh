# class: secrets
# about: JSON that is a string in JSON, with slashes escaped
# before: broke
grant_secret
agent_runs 'printf "{\"a\":\"{\\\\\"b\\\\\":\\\\\"%s\\\\\"}\"}" "$(printf %s "$API_KEY" | sed "s|/|\\\\\\\\\\\\/|")" >data.json; cat data.json'
denied_with 'Secret in change: data.json'
nowhere 'bar+7Q9x'
