# class: repository-forgery
# about: a hook in the git folder itself
# before: broke
agent_runs 'mkdir -p "$(dirname .git/hooks/pre-commit)"; echo "x" >.git/hooks/pre-commit; echo x >>a.txt'
denied .git/hooks/pre-commit
test ! -e .git/hooks/pre-commit || broken "it was published"
