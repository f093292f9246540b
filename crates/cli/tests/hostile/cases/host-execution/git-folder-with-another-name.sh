# class: host-execution
# about: the git folder is called repo.git, so that its hooks look like files of the tree
# before: broke
rm -rf .git
git init -q --separate-git-dir=repo.git .
git add a.txt src crealeph.toml
git commit -qm start
agent_runs "$(payload repo.git/hooks/reference-transaction); echo x >>a.txt"
test "$(status)" = denied || broken "a hook of the git folder was published"
reason | grep -q "^Denied path: repo.git/hooks/reference-transaction" || broken "$(reason)"
test ! -e repo.git/hooks/reference-transaction || broken "the hook is there"
git update-ref refs/heads/x HEAD
safe
