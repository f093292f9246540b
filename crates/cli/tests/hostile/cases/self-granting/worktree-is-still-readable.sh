# class: self-granting
# about: no attack: in a worktree of git's own the agent still reads the repository it belongs to
# before: held
# fails without: granting the git folder that a worktree belongs to
git worktree add -q "$SCENE/tree" -b tree
cd "$SCENE/tree"
agent_runs 'git log --oneline >got.txt'
test "$(status)" = success || broken "the ordinary part did not work"
grep -q start got.txt || broken "git does not work in a worktree"
