# class: secrets
# about: an agent that fails leaves its diff for the curious, with the secret
# before: broke
grant_secret
agent_runs 'echo "$API_KEY" >a.txt; exit 1'
denied_with 'Secret in change: a.txt'
nowhere "$API_KEY"
crealeph_does work diff "$(jq -r 'select(.receipt_id).receipt_id' "$SCENE/out")"
nowhere "$API_KEY"
