# class: repository-forgery
# about: the branch is checked out in the workspace, so that its files would seem to undo the commit
# before: broke
agent_runs 'echo x >>a.txt' --publish branch:main
test "$code" -eq 2 || broken "ended with $code"
grep -q "is checked out in" "$SCENE/err" || broken "no word about it"
test -z "$(git status --porcelain -uno)" || broken "$(git status --porcelain)"
