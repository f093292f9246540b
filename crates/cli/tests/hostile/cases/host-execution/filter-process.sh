# class: host-execution
# about: a long-running filter of the repository is a program in the tree
# before: broke
git config filter.up.process ./filter
git config filter.up.required true
echo 'src/*.txt filter=up' >.git/info/attributes
agent_runs "$(payload filter)"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
safe
not_landed 'src/b.txt' 'filter=up'
