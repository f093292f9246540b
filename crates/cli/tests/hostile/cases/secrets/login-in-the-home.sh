# class: secrets
# about: a coding agent's own login file, copied into the home, ends in the tree
# before: broke
mkdir -p "$HOME/.codex"; printf '{"tokens":{"access_token":"eyJhbGciOi.JIUzI1NiIsInR5.cCI6Ik-9"},"last_refresh":"2026-01-01"}' >"$HOME/.codex/auth.json"
printf 'home = ["~/.codex/auth.json"]\n' >>crealeph.toml; git commit -qam grant
agent_runs 'sed "s/.*access_token\":\"\([^\"]*\).*/\1/" ~/.codex/auth.json >a.txt; test -s a.txt'
denied_with 'Secret in change: a.txt'
agent_runs 'cp ~/.codex/auth.json a.txt'
denied_with 'Secret in change: a.txt'
