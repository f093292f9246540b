# class: self-granting
# about: the agent changes another agent's script on a branch, which someone merges later
# before: broke
mkdir tools
echo 'echo fine' >tools/two.sh
cat >>crealeph.toml <<'END'
[work.agents.two]
agent_id = "agent-2"
command = ["sh", "tools/two.sh"]
END
git add -A
git commit -qm two
agent_runs 'echo evil >>tools/two.sh' --publish branch:agents/x
denied tools/two.sh
if git show agents/x:tools/two.sh 2>/dev/null | grep -q evil; then broken "the branch has it"; fi
