# class: trust
# about: the script of a trusted agent is another after a pull
# before: broke
unset CREALEPH_TRUST
mkdir tools
echo 'echo fine >>a.txt' >tools/one.sh
printf '[work.agents.one]\nagent_id = "agent-1"\ncommand = ["sh", "tools/one.sh"]\n' >crealeph.toml
into_clone
crealeph_does trust --yes
agent_runs 'Do it'
test "$(status)" = success || broken "what was trusted does not run"
echo 'echo evil >>a.txt' >tools/one.sh
agent_runs 'Do it'
refused "crealeph trust $SCENE/clone/crealeph.toml"
if grep -q evil a.txt; then broken "the script ran"; fi
