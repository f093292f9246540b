# class: protected-paths
# about: our own configuration in a subfolder, where the next command may be started
# before: broke
no_agent_may_write src/crealeph.toml .crealeph.d/x .crealeph-policy
