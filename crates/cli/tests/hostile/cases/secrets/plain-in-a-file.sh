# class: secrets
# about: the agent writes its secret into a source file
# before: broke
grant_secret
agent_runs 'printf "key = %s\n" "$API_KEY" >>a.txt; echo fine >b.txt'
denied_with 'Secret in change: a.txt'
nowhere "$API_KEY"
