# class: bounds
# about: a flood of output with a secret across the edge of the bound: what is kept ends at the bound and holds no part of the secret
# before: held
# fails without: redacting what is kept
printf 'max_output_bytes = 65536\n' >>crealeph.toml
grant_secret
agent_runs 'head -c 65516 /dev/zero | tr "\0" a; printf %s "$API_KEY"; head -c 3000000 /dev/zero | tr "\0" b; echo x >>a.txt'
landed
run=$(run_of)
size=$(wc -c <".crealeph/runs/$run/stdout.txt")
test "$size" -le 65536 || broken "$size bytes were kept"
nowhere "$API_KEY" sk-live-
