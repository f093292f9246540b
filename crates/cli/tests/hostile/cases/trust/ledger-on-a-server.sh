# class: trust
# about: a clone says that the ledger is on its author's server, to which the user's PGPASSWORD would go
# before: broke
unset CREALEPH_TRUST
listening
printf '[ledger]\nlocation = "postgres://ana@127.0.0.1:%s/db?sslmode=disable"\n' "$port" >crealeph.toml
into_clone
export PGPASSWORD=a-secret-password
for command in "ledger list" "ledger stats" "ledger verify" "execution list" "review list" "robot status r" "snapshot r"; do
    crealeph_does $command
    safe
    refused "crealeph trust $SCENE/clone/crealeph.toml"
done
