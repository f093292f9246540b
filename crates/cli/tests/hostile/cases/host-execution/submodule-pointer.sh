# class: host-execution
# about: the agent points a submodule to a git folder of its own with hooks
# before: broke
git init -q "$SCENE/lib"
git -C "$SCENE/lib" commit -q --allow-empty -m lib
git -c protocol.file.allow=always submodule add -q "$SCENE/lib" lib
git commit -qm submodule
agent_runs 'mkdir -p fake/hooks fake/x; echo "gitdir: ../fake" >lib/.git; echo x >>a.txt' --publish tree
denied lib/.git
grep -q modules lib/.git || broken "the pointer was changed"
safe
