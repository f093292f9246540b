# class: host-execution
# about: the same through a transport helper that runs a command
# before: broke
printf 'big\n' >big
git add -A
git commit -qm big
blob=$(git rev-parse HEAD:big)
git config core.repositoryFormatVersion 1
git config extensions.partialClone origin
git config remote.origin.url "ext::sh $WS/tool"
git config remote.origin.promisor true
git config protocol.ext.allow always
agent_runs "$(payload tool)"
landed
rm -f ".git/objects/$(echo "$blob" | cut -c 1-2)/$(echo "$blob" | cut -c 3-)"
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
safe
