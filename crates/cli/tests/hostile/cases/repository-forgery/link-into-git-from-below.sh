# class: repository-forgery
# about: the same from a folder, with a climb
# before: broke
agent_runs 'ln -s ../.git/config src/settings' 
denied 'src/settings'
safe
