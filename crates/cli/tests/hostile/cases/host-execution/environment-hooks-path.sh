# class: host-execution
# about: GIT_CONFIG_COUNT of the caller points hooks into the tree
# before: broke
agent_runs "mkdir hooks; $(payload hooks/reference-transaction)"
landed
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=hooks
export GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
unset GIT_CONFIG_COUNT
safe
