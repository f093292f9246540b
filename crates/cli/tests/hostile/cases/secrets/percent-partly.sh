# class: secrets
# about: percent-encoding of some characters only, as a browser does it
# before: broke
grant_secret
agent_runs 'printf "https://example.com/?key=%s\n" "$(printf %s "$API_KEY" | sed "s|/|%2F|g; s|+|%2b|g; s|&|%26|g")" >links.txt'
denied_with 'Secret in change: links.txt'
nowhere 'Zm9v%2Fbar'
