# class: self-granting
# about: a command is one line for the shell, and the agent edits the script that the line runs
# before: broke
mkdir tools
echo 'echo fine' >tools/two.sh
cat >>crealeph.toml <<'END'
[work.agents.two]
agent_id = "agent-2"
command = "umask 077 && exec sh tools/two.sh --fast"
END
agent_runs 'echo evil >>tools/two.sh'
denied tools/two.sh
agent_runs 'echo fine >>a.txt'
test "$(status)" = success || broken "another file cannot be changed any more"
