# class: self-granting
# about: a work agent edits the script of a Builder agent
# before: broke
mkdir agents
echo 'cat' >agents/planner.sh
cat >>crealeph.toml <<'END'
[agents."planner@1"]
kind = "process"
command = ["sh", "agents/planner.sh"]
hosts = ["api.example.com:443"]
END
agent_runs 'echo evil >>agents/planner.sh'
denied agents/planner.sh
