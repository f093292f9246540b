# class: secrets
# about: the preset rust gives cargo's settings without tokens
# before: broke
mkdir -p "$HOME/.cargo/bin"; printf '#!/bin/sh\n' >"$HOME/.cargo/bin/cargo"; chmod +x "$HOME/.cargo/bin/cargo"; PATH=$HOME/.cargo/bin:$PATH
unset CARGO_HOME RUSTUP_HOME 2>/dev/null || true
printf '[build]\njobs = 2\n[registries.own]\nindex = "sparse+https://ana:hunter2hunter2@example.com/"\ntoken = "Bearer cio0123456789"\n[env]\nDEPLOY_TOKEN = "cio0123456789"\n' >"$HOME/.cargo/config.toml"
printf '[registry]\ntoken = "cio0123456789"\n' >"$HOME/.cargo/credentials.toml"
printf 'presets = ["rust"]\n' >>crealeph.toml; git commit -qam preset
agent_runs 'cat ~/.cargo/config.toml ~/.cargo/credentials.toml >seen.txt 2>/dev/null; echo over >>seen.txt'
succeeded
grep -q 'jobs' seen.txt || broken "the settings are not there"
if grep -q 'hunter2\|cio0123' seen.txt; then broken "the agent saw: $(cat seen.txt)"; fi
