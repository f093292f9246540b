# class: host-execution
# about: the same hook, where the workspace is a linked working tree
# before: broke
git config core.hooksPath hooks
git worktree add -q "$SCENE/linked" -b side
crealeph_does work run --agent one --workspace "$SCENE/linked" "mkdir hooks; $(payload hooks/reference-transaction)"
landed
crealeph_does work run --agent one --workspace "$SCENE/linked" 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
