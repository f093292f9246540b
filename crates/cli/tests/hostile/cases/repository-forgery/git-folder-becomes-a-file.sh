# class: repository-forgery
# about: the agent puts a file where the git folder is
# before: broke
agent_runs 'rm -rf .git; mkdir fake; echo "gitdir: fake" >.git; echo x >>a.txt'
denied .git
test -d .git || broken "the git folder is gone"
git log -1 --format=%s | grep -qx start || broken "the repository is another"
