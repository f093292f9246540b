# class: repository-forgery
# about: git silently drops a path like .GIT/x from a commit, so that the branch has less than was tested
# before: broke
agent_runs 'mkdir .GIT; echo x >.GIT/x; echo x >>a.txt' --publish branch:agents/x
denied .GIT/x
git rev-parse -q --verify agents/x && broken "a branch was made" || true
