# class: trust
# about: the script of a trusted agent is a link, and what it leads to is another now
# before: broke
unset CREALEPH_TRUST
mkdir tools
echo 'echo fine >>a.txt' >tools/real.sh
ln -s real.sh tools/one.sh
printf '[work.agents.one]\nagent_id = "agent-1"\ncommand = "sh tools/one.sh"\n' >crealeph.toml
into_clone
crealeph_does trust --yes
echo 'echo evil >>a.txt' >tools/real.sh
agent_runs 'Do it'
refused "crealeph trust $SCENE/clone/crealeph.toml"
