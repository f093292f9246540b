# class: repository-forgery
# about: Windows drops the dot at the end of .git.
# before: broke
agent_runs 'mkdir .git.; echo x >.git./config' 
denied '.git./config'
safe
