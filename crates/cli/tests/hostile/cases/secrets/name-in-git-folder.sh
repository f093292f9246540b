# class: secrets
# about: what is written to .git is dropped, but its names are listed in the receipt
# before: broke
grant_secret
agent_runs 'echo x >".git/$(printf %s "$API_KEY" | tr / _)"; mkdir -p .git/x/sk-live-Zm9v; echo x >".git/x/$API_KEY"; echo fine >b.txt'
denied_with 'Secret in change'
nowhere 'bar+7Q9x'
