# class: foreign-state
# about: the user's state directory can be written by others, who put in it what they want to be trusted
# before: broke
mkdir -p "$XDG_STATE_HOME/crealeph"
chmod 777 "$XDG_STATE_HOME/crealeph"
agent_runs 'echo x >>a.txt'
refused "others may write to"
