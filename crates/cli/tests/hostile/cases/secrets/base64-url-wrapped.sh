# class: secrets
# about: base64 with the URL alphabet, wrapped and indented like YAML
# before: broke
grant_secret
agent_runs 'printf "xy%s" "$API_KEY" | base64 -w 9 | tr "+/" "-_" | sed "s/^/        /" >config.yaml'
denied_with 'Secret in change: config.yaml'
