# class: repository-forgery
# about: a nested repository has its git folder in the tree under another name
# before: broke
git init -q --separate-git-dir=meta lib
git -C lib commit -q --allow-empty -m lib
git add a.txt
agent_runs "$(payload meta/hooks/post-commit); echo x >>a.txt"
test "$(status)" = denied || broken "$(status)"
git -C lib commit -q --allow-empty -m again
safe
