# class: repository-forgery
# about: everything that is shared is taken from a folder of the agent
# before: broke
agent_runs 'mkdir -p "$(dirname .git/commondir)"; echo "../fake" >.git/commondir; echo x >>a.txt'
denied .git/commondir
test ! -e .git/commondir || broken "it was published"
