# class: repository-forgery
# about: the git folder of a submodule that is checked out later
# before: broke
agent_runs 'mkdir -p "$(dirname .git/modules/lib/config)"; echo "[core]" >.git/modules/lib/config; echo x >>a.txt'
denied .git/modules/lib/config
test ! -e .git/modules/lib/config || broken "it was published"
