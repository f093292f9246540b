# class: secrets
# about: the secret is where a symbolic link leads
# before: broke
grant_secret
agent_runs 'ln -s "src/$API_KEY" link'
denied_with 'Secret in change: link'
nowhere 'bar+7Q9x'
