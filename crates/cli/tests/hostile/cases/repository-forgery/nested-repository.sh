# class: repository-forgery
# about: the agent runs git init in a folder
# before: broke
agent_runs 'git init -q lib; echo x >lib/x'
denied lib/.git
test ! -e lib/.git || broken "it was published"
