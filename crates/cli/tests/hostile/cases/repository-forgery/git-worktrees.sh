# class: repository-forgery
# about: another working tree of the agent
# before: broke
agent_runs 'mkdir -p "$(dirname .git/worktrees/x/gitdir)"; echo "/tmp/x/.git" >.git/worktrees/x/gitdir; echo x >>a.txt'
denied .git/worktrees/x/gitdir
test ! -e .git/worktrees/x/gitdir || broken "it was published"
