# class: protected-paths
# about: instruction files that the next coding agent obeys, in any folder
# before: broke
no_agent_may_write src/AGENTS.md CLAUDE.local.md GEMINI.md .cursorrules
