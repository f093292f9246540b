# class: secrets
# about: what the agent prints is kept: percent-encoded, in hexadecimal with colons, in JSON units
# before: broke
grant_secret
agent_runs 'hex=$(printf %s "$API_KEY" | xxd -p -c 64); echo "$hex" | sed "s/../%&/g"; echo "$hex" | sed "s/../&:/g"; echo "$hex" | sed "s/../\\\\u00&/g"; echo end; echo x >b.txt'
succeeded
kept=$(cat "$WS"/.crealeph/runs/*/stdout.txt)
case $kept in *end*) ;; *) broken "nothing was kept: $kept" ;; esac
nowhere '%73%6b%2d' '73:6b:2d' 'u0073\u006b'
