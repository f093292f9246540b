# class: self-granting
# about: the agent replaces a folder that a Builder agent may read by a link to another
# before: broke
mkdir prompts agents
echo one >prompts/one.txt
echo 'cat' >agents/planner.sh
cat >>crealeph.toml <<'END'
[agents."planner@1"]
kind = "process"
command = ["sh", "agents/planner.sh"]
read = ["prompts"]
END
agent_runs "rm -r prompts; ln -s src prompts"
denied prompts
agent_runs 'echo two >>prompts/one.txt'
test "$(status)" = success || broken "a file in the folder cannot be changed any more"
