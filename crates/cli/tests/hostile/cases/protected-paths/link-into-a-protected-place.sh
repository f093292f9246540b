# class: protected-paths
# about: a link elsewhere that leads into a protected place, by which a later tool writes or runs it
# before: broke
mkdir -p .github/workflows; echo good >.github/workflows/x.yml; git add .github; git commit -qm ci
agent_runs 'ln -s .github/workflows flows'
denied_with 'Denied path: flows (a link to'
agent_runs 'ln -s ../.github/workflows/x.yml src/x.yml'
denied_with 'Denied path: src/x.yml (a link to'
agent_runs 'ln -s ../.GITHUB/workflows src/z'
denied_with 'Denied path: src/z (a link to'
