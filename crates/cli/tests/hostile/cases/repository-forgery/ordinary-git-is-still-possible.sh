# class: repository-forgery
# about: an agent that uses git as everyone does is not denied, and none of it stays
# before: held
# fails without: discarding what is written in `.git`
agent_runs 'git status -s; echo x >>a.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm mine; git stash list; git checkout -q -b mine; git gc -q'
landed
test "$(git log --format=%s)" = start || broken "a commit of the agent stayed"
test "$(git branch --format='%(refname:short)')" = main || broken "a branch of the agent stayed"
tail -n 1 a.txt | grep -qx x || broken "the change did not land"
safe
