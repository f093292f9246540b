# class: protected-paths
# about: deleting a protected file is a change of it
# before: held
# fails without: counting what is gone
mkdir -p .github; echo '* @ana' >.github/CODEOWNERS; git add .github; git commit -qm owners
agent_runs 'rm -r .github'
denied_with 'Denied path: .github/CODEOWNERS'
