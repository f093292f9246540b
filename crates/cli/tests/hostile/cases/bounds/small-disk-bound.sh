# class: bounds
# about: a hole that is small for the machine, yet past the agent's own disk bound
# before: broke
echo 'disk_bytes = 1048576' >>crealeph.toml
agent_runs 'truncate -s 8M hole'
denied_for '8388608 bytes written (limit `disk_bytes` 1048576)'
nothing_kept
agent_runs 'truncate -s 1M hole'
test "$(status)" = success || broken "a hole exactly at the bound was refused"
