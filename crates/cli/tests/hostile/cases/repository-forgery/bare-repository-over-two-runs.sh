# class: repository-forgery
# about: the second run adds what the first left out
# before: broke
agent_runs 'mkdir -p lib/objects lib/refs; echo x >lib/objects/x; echo x >lib/refs/x; printf "[core]\n" >lib/config'
landed
agent_runs 'echo "ref: refs/heads/main" >lib/HEAD'
denied lib/HEAD
