# class: protected-paths
# about: protected paths hold on a branch and for changes that are held
# before: broke
agent_runs 'mkdir .claude; echo evil >.claude/settings.json' --publish branch:agents/x
denied_with 'Denied path: .claude/settings.json'
agent_runs 'mkdir .claude; echo evil >.claude/settings.json' --hold
denied_with 'Denied path: .claude/settings.json'
