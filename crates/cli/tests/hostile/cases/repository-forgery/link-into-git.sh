# class: repository-forgery
# about: a link to the folder of hooks, for whatever writes through it later
# before: broke
agent_runs 'ln -s .git/hooks tools' 
denied 'tools'
test ! -L tools || broken "it was published"
