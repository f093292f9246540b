# class: repository-forgery
# about: a casefolding ext4 leaves a soft hyphen out when it compares names
# before: broke
agent_runs "mkdir '.gi­t'; echo x >'.gi­t/config'" 
denied ".gi­t/config"
safe
