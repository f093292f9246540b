# class: repository-forgery
# about: a backslash parts names on Windows, so that one file is in the git folder
# before: broke
agent_runs 'echo x >"src\\.git\\config"' 
denied 'src'
safe
