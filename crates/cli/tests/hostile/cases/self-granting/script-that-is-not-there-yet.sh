# class: self-granting
# about: a command names a file that is not there yet, and the agent makes it, to be read and run by the other agent
# before: broke
mkdir agents
echo 'cat' >agents/planner.sh
cat >>crealeph.toml <<'END'
[agents."planner@1"]
kind = "process"
command = ["sh", "agents/planner.sh", "notes.txt"]
END
agent_runs "ln -s src/b.txt notes.txt"
denied notes.txt
