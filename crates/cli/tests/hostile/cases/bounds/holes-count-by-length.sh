# class: bounds
# about: three files that are nothing but holes, 12 GiB by their length, are read and copied although they cannot land
# before: broke
started
agent_runs 'for name in one two three; do truncate -s 4G $name; done'
denied_for 'Exceeded a limit of the sandbox: .*12884901888 bytes written (limit `disk_bytes` 4294967296)'
within 60
nothing_kept
