# class: self-granting
# about: protected paths may be changed, and the agent takes that for a right to change its own configuration
# before: broke
printf '[work.agents.one.paths]\nallow_laws = true\n' >>crealeph.toml
agent_runs 'echo "[work.agents.one.test]" >>crealeph.toml'
denied crealeph.toml
agent_runs 'mkdir .ci; echo x >.ci/steps'
test "$(status)" = success || broken "allow_laws does nothing any more"
