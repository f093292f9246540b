# class: repository-forgery
# about: Subversion's folder, with a letter that folds to s
# before: broke
agent_runs "mkdir '.ſvn'; echo x >'.ſvn/wc.db'" 
denied ".ſvn/wc.db"
safe
