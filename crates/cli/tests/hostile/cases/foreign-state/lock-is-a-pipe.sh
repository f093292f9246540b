# class: foreign-state
# about: a clone brings a lock that is a pipe, so that every command waits
# before: broke
mkdir .crealeph
mkfifo .crealeph/lock
code=0
timeout 20 crealeph work run --agent one 'echo x >>a.txt' >"$SCENE/out" 2>"$SCENE/err" </dev/null || code=$?
refused ".crealeph/lock\` is neither a file nor a folder"
