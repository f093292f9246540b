# class: repository-forgery
# about: settings of the working tree
# before: broke
agent_runs 'mkdir -p "$(dirname .git/config.worktree)"; echo "[core]" >.git/config.worktree; echo x >>a.txt'
denied .git/config.worktree
test ! -e .git/config.worktree || broken "it was published"
