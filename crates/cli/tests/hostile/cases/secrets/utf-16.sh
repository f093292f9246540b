# class: secrets
# about: the secret in UTF-16, as an editor on Windows saves it
# before: broke
grant_secret
agent_runs 'printf "key=%s\n" "$API_KEY" | iconv -f UTF-8 -t UTF-16LE >notes.txt'
denied_with 'Secret in change: notes.txt'
