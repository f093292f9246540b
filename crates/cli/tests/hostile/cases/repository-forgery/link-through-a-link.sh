# class: repository-forgery
# about: a link to a link of the user's that leads into the git folder
# before: broke
ln -s .git meta
git add -A
git commit -qm link
agent_runs 'ln -s meta/hooks tools'
denied tools
test ! -L tools || broken "it was published"
