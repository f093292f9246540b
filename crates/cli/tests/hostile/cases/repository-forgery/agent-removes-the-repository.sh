# class: repository-forgery
# about: the agent deletes the git folder
# before: held
# fails without: discarding what is written in `.git`
agent_runs 'rm -rf .git; echo x >>a.txt'
landed
git log -1 --format=%s | grep -qx start || broken "the repository is gone"
safe
