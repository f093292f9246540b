# class: secrets
# about: the agent writes a file that was hidden from it, over the user's own
# before: broke
echo 'PASSWORD=hunter2hunter2' >.env
agent_runs 'echo EVIL=1 >.env; echo x >b.txt'
denied_with 'Hidden path: .env'
test "$(cat .env)" = 'PASSWORD=hunter2hunter2' || broken "it was overwritten"
agent_runs 'mkdir -p sub/.env.d; echo EVIL=1 >sub/.env.d/x'
denied_with 'Hidden path: sub/.env.d/x'
agent_runs 'echo EVIL=1 >.ENV'
denied_with 'Hidden path: .ENV'
agent_runs 'ln -s a.txt .env'
denied_with 'Hidden path: .env'
