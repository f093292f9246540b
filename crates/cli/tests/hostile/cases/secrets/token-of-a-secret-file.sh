# class: secrets
# about: one token of a secret file with several lines
# before: broke
printf '# logins\nDB_PASSWORD=pw-0123456789-abcdefghij\nMIRROR=https://ana:hunter2hunter2@example.com/x\n' >"$HOME/secrets.env"
printf 'secret_files = { env = "~/secrets.env" }\n' >>crealeph.toml; git commit -qam grant
agent_runs 'grep -o "pw-.*" /run/secrets/env >a.txt'
denied_with 'Secret in change: a.txt'
agent_runs 'sed -n "s/.*ana:\(.*\)@.*/\1/p" /run/secrets/env | base64 >a.txt'
denied_with 'Secret in change: a.txt'
agent_runs 'grep -o "MIRROR" /run/secrets/env >a.txt'
succeeded
