# class: secrets
# about: the agent removes a folder with a file that it cannot see
# before: broke
mkdir deploy; echo 'PASSWORD=hunter2hunter2' >deploy/.env; echo y >deploy/y; git add deploy/y; git commit -qm deploy
agent_runs 'rm -rf deploy; echo x >b.txt'
test "$(cat deploy/.env)" = 'PASSWORD=hunter2hunter2' || broken "the user's file is gone"
