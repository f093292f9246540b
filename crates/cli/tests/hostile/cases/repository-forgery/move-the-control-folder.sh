# class: repository-forgery
# about: the agent gives its own folder the name of ours, below the workspace
# before: held
# fails without: discarding what is written in a `.crealeph`
agent_runs 'mkdir -p src/.crealeph/runs; echo forged >src/.crealeph/runs/journal.jsonl; echo x >>a.txt'
landed
test ! -e src/.crealeph || broken "it was published"
