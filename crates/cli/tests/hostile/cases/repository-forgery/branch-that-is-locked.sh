# class: repository-forgery
# about: someone else is writing the branch
# before: held
# fails without: taking the lock of the reference
git branch side
: >.git/refs/heads/side.lock
agent_runs 'echo x >>a.txt' --publish branch:side
test "$(status)" = failure || broken "$(status)"
test "$(git log -1 --format=%s side)" = start || broken "the branch was moved"
