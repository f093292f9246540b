# class: host-execution
# about: the caller has GIT_DIR and others set to a folder that the agent fills
# before: broke
agent_runs 'mkdir -p fake/info; echo x >fake/note'
landed
cp -r .git fake/repo
mkdir -p fake/repo/hooks
printf '#!/bin/sh\necho hook >%s/pwned\n' "$OUT" >fake/repo/hooks/reference-transaction
chmod +x fake/repo/hooks/reference-transaction
GIT_DIR=$WS/fake/repo GIT_COMMON_DIR=$WS/fake/repo GIT_OBJECT_DIRECTORY=$WS/fake/repo/objects GIT_WORK_TREE=$WS
GIT_INDEX_FILE=$WS/fake/index GIT_NAMESPACE=evil GIT_ALTERNATE_OBJECT_DIRECTORIES=$WS/fake
export GIT_DIR GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_WORK_TREE GIT_INDEX_FILE GIT_NAMESPACE GIT_ALTERNATE_OBJECT_DIRECTORIES
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
unset GIT_DIR GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_WORK_TREE GIT_INDEX_FILE GIT_NAMESPACE GIT_ALTERNATE_OBJECT_DIRECTORIES
safe
landed
git show agents/x:src/b.txt | grep -qx y || broken "the commit is not in the repository of the workspace"
