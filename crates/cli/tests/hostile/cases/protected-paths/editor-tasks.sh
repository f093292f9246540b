# class: protected-paths
# about: tasks and settings that an editor runs when the folder is opened
# before: broke
no_agent_may_write .vscode/tasks.json .idea/workspace.xml .zed/tasks.json .devcontainer/devcontainer.json .exrc
