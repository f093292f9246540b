# class: host-execution
# about: an object is missing, and git would fetch it through a program in the tree
# before: broke
printf 'big\n' >big
git add -A
git commit -qm big
blob=$(git rev-parse HEAD:big)
git config core.repositoryFormatVersion 1
git config extensions.partialClone origin
git config remote.origin.url ssh://nowhere.invalid/x
git config remote.origin.promisor true
git config core.sshCommand "$WS/tool"
agent_runs "$(payload tool)"
landed
rm -f ".git/objects/$(echo "$blob" | cut -c 1-2)/$(echo "$blob" | cut -c 3-)"
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
safe
