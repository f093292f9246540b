# class: bounds
# about: a file 250 folders deep lands, and no state of the workspace can be read afterwards
# before: broke
agent_runs 'path=$(seq -s / 250); mkdir -p $path; echo x >$path/file'
denied_for 'folders deep'
agent_runs 'path=$(seq -s / 200); mkdir -p $path; echo x >$path/file'
test "$(status)" = success || broken "200 folders are allowed"
agent_runs 'echo y >>a.txt'
test "$(status)" = success || broken "the workspace cannot be read any more"
