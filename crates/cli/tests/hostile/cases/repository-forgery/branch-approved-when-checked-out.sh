# class: repository-forgery
# about: the branch is checked out between the run and its approval
# before: broke
git branch side
agent_runs 'echo x >>a.txt' --publish branch:side --hold
run=$(jq -r 'select(.run).run' "$SCENE/out" | head -n 1)
git checkout -q side
crealeph_does work approve "$run" --reason fine
test "$code" -ne 0 || broken "the branch was moved under its working tree"
test "$(git log -1 --format=%s side)" = start || broken "the branch was moved under its working tree"
