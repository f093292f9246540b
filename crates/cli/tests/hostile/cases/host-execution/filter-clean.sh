# class: host-execution
# about: a clean filter of the repository is a program in the tree
# before: broke
# holds: invariant 19
printf 'cat\n' >clean.sh
git add -A
git commit -qm filter
git config filter.up.clean "sh ./clean.sh"
echo '*.txt filter=up' >.gitattributes
git add -A
git commit -qm attributes
agent_runs "echo 'echo clean >$OUT/pwned; cat' >clean.sh"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
safe
not_landed 'src/b.txt' 'filter=up'
