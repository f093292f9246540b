# class: self-granting
# about: the agent writes CreAleph.TOML, which is the configuration where a file system ignores case
# before: broke
agent_runs 'cp crealeph.toml CreAleph.TOML'
denied CreAleph.TOML
