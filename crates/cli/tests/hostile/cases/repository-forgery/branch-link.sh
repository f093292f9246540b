# class: repository-forgery
# about: a link into the git folder on its way to a branch
# before: broke
agent_runs 'ln -s .git/hooks tools; echo x >>a.txt' --publish branch:agents/x
denied tools
git rev-parse -q --verify agents/x && broken "a branch was made" || true
