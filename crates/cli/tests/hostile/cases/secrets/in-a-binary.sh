# class: secrets
# about: the secret between the bytes of a binary file
# before: broke
grant_secret
agent_runs 'head -c 30000 /bin/sh >tool; printf %s "$API_KEY" >>tool; head -c 30000 /bin/sh >>tool; chmod +x tool'
denied_with 'Secret in change: tool'
nowhere "$API_KEY"
