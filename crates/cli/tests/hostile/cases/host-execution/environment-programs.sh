# class: host-execution
# about: the caller's environment names programs in the tree, as editors and ssh wrappers do
# before: held
# fails without: writing branches without git (`git diff` was started)
agent_runs "$(payload tool)"
landed
GIT_EXTERNAL_DIFF=$WS/tool GIT_EDITOR=$WS/tool GIT_PAGER=$WS/tool GIT_SSH=$WS/tool GIT_SSH_COMMAND=$WS/tool GIT_ASKPASS=$WS/tool
GIT_EXEC_PATH=$WS GIT_PROXY_COMMAND=$WS/tool GIT_TEMPLATE_DIR=$WS
export GIT_EXTERNAL_DIFF GIT_EDITOR GIT_PAGER GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS GIT_EXEC_PATH GIT_PROXY_COMMAND GIT_TEMPLATE_DIR
crealeph_does work run --agent one 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
