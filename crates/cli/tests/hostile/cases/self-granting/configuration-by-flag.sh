# class: self-granting
# about: the configuration is named with --config and is in the workspace under another name
# before: broke
# holds: invariant 15
mkdir ops
mv crealeph.toml ops/agents.toml
agent_runs 'echo "network = [\"evil.example:443\"]" >>ops/agents.toml' --config ops/agents.toml
denied ops/agents.toml
