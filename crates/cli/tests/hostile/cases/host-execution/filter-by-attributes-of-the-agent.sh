# class: host-execution
# about: the agent itself says that its files go through a filter which is a program in the tree
# before: broke
git config filter.up.clean "sh ./clean.sh"
attack="echo 'echo clean >$OUT/pwned; cat' >clean.sh; mkdir new; echo '* filter=up' >new/.gitattributes; echo x >new/x"
agent_runs "$attack" --publish branch:agents/x
denied new/.gitattributes
safe
# Where the owner lets the agent change such files, git's programs still do not run.
printf '[work.agents.one.paths]\nallow_laws = true\n' >>crealeph.toml
agent_runs "$attack" --publish branch:agents/x
landed
git show agents/x:new/x | grep -qx x || broken "the file is not on the branch"
safe
agent_runs 'mkdir -p new; echo z >new/z' --publish branch:agents/x
safe
not_landed 'new/z' 'filter=up'
