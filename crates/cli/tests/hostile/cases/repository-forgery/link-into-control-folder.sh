# class: repository-forgery
# about: a link to where runs and their receipts are kept
# before: broke
agent_runs 'ln -s .crealeph/runs logs' 
denied 'logs'
safe
