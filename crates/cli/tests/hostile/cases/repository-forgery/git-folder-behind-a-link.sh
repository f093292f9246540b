# class: repository-forgery
# about: .git is a link to a folder of the tree, whose hooks look like files of the tree
# before: broke
mv .git dotgit
ln -s dotgit .git
agent_runs "$(payload dotgit/hooks/post-checkout); echo x >>a.txt"
denied dotgit/hooks/post-checkout
test ! -e dotgit/hooks/post-checkout || broken "the hook is there"
agent_runs 'git status -s; echo x >>a.txt; git add -A'
landed
safe
