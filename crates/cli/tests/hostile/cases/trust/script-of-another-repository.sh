# class: trust
# about: a trusted configuration outside the clone names a script in it, and a pull changes the script
# before: broke
unset CREALEPH_TRUST
mkdir tools "$SCENE/mine"
echo 'echo fine >>a.txt' >tools/one.sh
into_clone
printf '[work.agents.one]\nagent_id = "agent-1"\ncommand = ["sh", "%s/tools/one.sh"]\n' "$SCENE/clone" >"$SCENE/mine/agents.toml"
crealeph_does trust --yes "$SCENE/mine/agents.toml"
agent_runs 'Do it' --config "$SCENE/mine/agents.toml"
test "$(status)" = success || broken "what was trusted does not run"
echo 'echo evil >>a.txt' >tools/one.sh
agent_runs 'Do it' --config "$SCENE/mine/agents.toml"
refused "crealeph trust $SCENE/mine/agents.toml"
