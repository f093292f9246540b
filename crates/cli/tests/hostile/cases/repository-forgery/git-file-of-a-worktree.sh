# class: repository-forgery
# about: the workspace is a linked working tree, and the agent points its .git elsewhere
# before: broke
git worktree add -q "$SCENE/linked" -b side
crealeph_does work run --agent one --workspace "$SCENE/linked" 'mkdir fake; echo "gitdir: fake" >.git; echo x >>a.txt'
denied .git
git -C "$SCENE/linked" log -1 --format=%s | grep -qx start || broken "the repository is another"
