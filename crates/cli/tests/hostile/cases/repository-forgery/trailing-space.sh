# class: repository-forgery
# about: Windows drops the space at the end of the name
# before: broke
agent_runs 'mkdir ".git "; echo x >".git /config"' 
denied '.git /config'
safe
