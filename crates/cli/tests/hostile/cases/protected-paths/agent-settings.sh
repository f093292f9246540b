# class: protected-paths
# about: settings and instructions of the next coding agent: hooks, servers, permissions
# before: broke
no_agent_may_write sub/.claude/settings.local.json .codex/config.toml .cursor/mcp.json .aider.conf.yml .mcp.json
