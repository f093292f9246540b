# class: self-granting
# about: a change of a file is held, then the file becomes an agent's script, and the change is approved unseen
# before: broke
mkdir tools
echo 'echo fine' >tools/two.sh
agent_runs 'echo evil >>tools/two.sh' --hold
test "$code" = 3 || broken "the change is not held"
run=$(ls .crealeph/runs | grep -v 'owners\|lock\|journal')
cat >>crealeph.toml <<'END'
[work.agents.two]
agent_id = "agent-2"
command = ["sh", "tools/two.sh"]
END
crealeph_does work approve "$run" --by ana --reason fine
if grep -q evil tools/two.sh; then broken "the script was changed"; fi
denied tools/two.sh
