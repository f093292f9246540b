# class: secrets
# about: the secret is split across every border at which a file may be read in pieces
# before: broke
grant_secret
agent_runs 'head -c 65530 /dev/zero | tr "\0" a >big; printf %s "$API_KEY" >>big; head -c 65530 /dev/zero >>big'
denied_with 'Secret in change: big'
agent_runs 'head -c 1048570 /dev/zero | tr "\0" "\n" >big; printf %s "$API_KEY" | base64 >>big'
denied_with 'Secret in change: big'
