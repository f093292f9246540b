# class: repository-forgery
# about: attributes in the git folder name a filter
# before: broke
agent_runs 'mkdir -p "$(dirname .git/info/attributes)"; echo "* filter=up" >.git/info/attributes; echo x >>a.txt'
denied .git/info/attributes
test ! -e .git/info/attributes || broken "it was published"
