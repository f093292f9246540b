# class: repository-forgery
# about: objects are taken from a folder of the agent
# before: broke
agent_runs 'mkdir -p "$(dirname .git/objects/info/alternates)"; echo "/tmp" >.git/objects/info/alternates; echo x >>a.txt'
denied .git/objects/info/alternates
test ! -e .git/objects/info/alternates || broken "it was published"
