# class: secrets
# about: a link in the documentation leads to a hidden file, for anyone who publishes the folder
# before: broke
echo 'PASSWORD=hunter2hunter2' >.env
agent_runs 'mkdir docs; ln -s ../.env docs/page.md'
denied_with 'Hidden path: docs/page.md (a link to'
