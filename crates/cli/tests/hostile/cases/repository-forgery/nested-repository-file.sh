# class: repository-forgery
# about: a .git file points to a folder of the agent
# before: broke
agent_runs 'mkdir -p lib fake; echo "gitdir: ../fake" >lib/.git; echo x >lib/x'
denied lib/.git
test ! -e lib/.git || broken "it was published"
