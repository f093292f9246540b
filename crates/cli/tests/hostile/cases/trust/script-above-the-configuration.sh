# class: trust
# about: the configuration is in a subfolder of the clone and names a script outside that folder, which then changes
# before: broke
unset CREALEPH_TRUST
mkdir tools conf
echo 'echo fine >>a.txt' >tools/one.sh
printf '[work.agents.one]\nagent_id = "agent-1"\ncommand = ["sh", "../tools/one.sh"]\n' >conf/agents.toml
rm crealeph.toml
into_clone
crealeph_does trust --yes conf/agents.toml
agent_runs 'Do it' --config conf/agents.toml
test "$(status)" = success || broken "what was trusted does not run"
echo 'echo evil >>a.txt' >tools/one.sh
agent_runs 'Do it' --config conf/agents.toml
refused "crealeph trust $SCENE/clone/conf/agents.toml"
