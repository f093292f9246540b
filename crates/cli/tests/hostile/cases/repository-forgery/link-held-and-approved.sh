# class: repository-forgery
# about: a link into the git folder that awaits approval
# before: broke
agent_runs 'ln -s .git/hooks tools; echo x >>a.txt' --hold
denied tools
test -z "$(crealeph work status | jq -r 'select(.status == "held").run')" || broken "it waits for approval"
