# class: repository-forgery
# about: GITMOD~1 is .gitmodules on NTFS, and no rule about protected paths knows it
# before: broke
agent_runs 'echo x >GITMOD~1' 
denied 'GITMOD~1'
safe
