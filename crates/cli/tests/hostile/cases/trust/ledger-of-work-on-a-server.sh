# class: trust
# about: the same, and the user starts a built-in agent, which needs no entry in the configuration
# before: broke
unset CREALEPH_TRUST
listening
printf '[ledger]\nlocation = "postgres://ana@127.0.0.1:%s/db?sslmode=disable"\n' "$port" >crealeph.toml
into_clone
crealeph_does work run --agent claude 'Fix it, please'
safe
refused "crealeph trust $SCENE/clone/crealeph.toml"
crealeph_does work recover
safe
refused "crealeph trust $SCENE/clone/crealeph.toml"
