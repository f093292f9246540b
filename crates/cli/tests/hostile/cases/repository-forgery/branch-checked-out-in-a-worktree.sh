# class: repository-forgery
# about: the branch is checked out in another working tree
# before: broke
git worktree add -q "$SCENE/linked" -b side
agent_runs 'echo x >>a.txt' --publish branch:side
test "$code" -eq 2 || broken "ended with $code"
grep -q "$SCENE/linked" "$SCENE/err" || broken "no word about where"
test -z "$(git -C "$SCENE/linked" status --porcelain -uno)" || broken "the other working tree is not what its branch has"
