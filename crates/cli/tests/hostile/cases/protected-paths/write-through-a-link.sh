# class: protected-paths
# about: a link to a protected folder that the user has: writing through it is writing there
# before: held
# fails without: the list of protected paths
mkdir -p .github/workflows; echo good >.github/workflows/x.yml; ln -s .github/workflows flows; git add -A; git commit -qm ci
agent_runs 'echo evil >flows/x.yml'
denied_with 'Denied path: .github/workflows/x.yml'
test "$(cat .github/workflows/x.yml)" = good || broken "it was written"
