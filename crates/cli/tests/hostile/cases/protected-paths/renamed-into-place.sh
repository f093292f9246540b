# class: protected-paths
# about: a folder is prepared under another name and renamed
# before: broke
agent_runs 'mkdir -p x/workflows; echo evil >x/workflows/y.yml; mv x .forgejo'
denied_with 'Denied path: .forgejo'
