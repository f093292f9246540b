# class: repository-forgery
# about: the workspace is in no repository, and the agent makes it one
# before: broke
rm -rf .git
agent_runs 'git init -q .; echo x >>a.txt'
denied .git
test ! -e .git || broken "it was published"
