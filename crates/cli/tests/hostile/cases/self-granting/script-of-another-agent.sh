# class: self-granting
# about: one agent edits the script of another, which gets a secret
# before: broke
# holds: invariant 15
mkdir tools
echo 'echo fine' >tools/two.sh
cat >>crealeph.toml <<'END'
[work.agents.two]
agent_id = "agent-2"
command = ["sh", "tools/two.sh"]
secrets = ["DEPLOY_KEY"]
END
agent_runs 'echo "echo \$DEPLOY_KEY >stolen" >>tools/two.sh'
denied tools/two.sh
