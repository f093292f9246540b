# class: repository-forgery
# about: git on Windows cannot check out a name with a backslash
# before: broke
agent_runs 'echo x >"a\\b"' 
denied 'a'
safe
