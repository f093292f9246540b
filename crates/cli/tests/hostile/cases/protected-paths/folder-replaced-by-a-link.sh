# class: protected-paths
# about: a protected folder that is there is replaced by a link
# before: held
# fails without: the list of protected paths
mkdir -p .github/workflows; echo good >.github/workflows/x.yml; git add .github; git commit -qm ci
agent_runs 'cp -r .github ci; echo evil >ci/workflows/x.yml; rm -r .github; ln -s ci .github'
if test "$(status)" != denied; then broken "it was not denied"; fi
test "$(cat .github/workflows/x.yml)" = good || broken "it was replaced"
