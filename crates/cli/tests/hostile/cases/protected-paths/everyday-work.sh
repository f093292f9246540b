# class: protected-paths
# about: what agents change every day is not protected
# before: held
# fails without: a list of protected paths that names its paths (everything was protected)
agent_runs 'mkdir -p src/github docs hooks; echo x >src/github/client.rs; echo x >docs/x.md; echo x >hooks/useThing.ts; echo x >README.md; echo x >.gitignore; echo x >package.json; echo x >src/rules.rs'
succeeded
