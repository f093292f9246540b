# class: repository-forgery
# about: the same through a link that is no part of the state
# before: broke
echo local >.gitignore
ln -s .git local
git add -A
git commit -qm ignore
agent_runs 'ln -s local/config settings'
denied settings
