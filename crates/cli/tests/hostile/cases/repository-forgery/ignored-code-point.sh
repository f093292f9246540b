# class: repository-forgery
# about: HFS+ leaves a zero width non-joiner out when it compares names
# before: broke
agent_runs "mkdir '.g‌it'; echo x >'.g‌it/config'" 
denied ".g‌it/config"
safe
