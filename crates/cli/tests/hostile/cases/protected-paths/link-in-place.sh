# class: protected-paths
# about: a protected folder that is not there yet is made as a link to one that the agent may write
# before: broke
agent_runs 'mkdir ci; echo evil >ci/x.yml; ln -s ci .github'
denied_with 'Denied path: .github'
agent_runs 'mkdir h; echo evil >h/pre-commit; ln -s h .husky'
denied_with 'Denied path: .husky'
test ! -e .github -a ! -e .husky || broken "the link landed"
