# class: self-granting
# about: the list of protected paths is empty, so nothing but the program itself protects the configuration
# before: broke
printf '[work.agents.one.paths]\nlaws = []\n' >>crealeph.toml
agent_runs 'echo "[work.agents.one.test]" >>crealeph.toml'
denied crealeph.toml
