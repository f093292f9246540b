# class: trust
# about: a clone names a folder of signing keys that it brings, so that its author can sign as the user
# before: broke
unset CREALEPH_TRUST
printf '[ledger]\nkeys = "signing"\n' >crealeph.toml
into_clone
crealeph_does ledger init
refused "crealeph trust $SCENE/clone/crealeph.toml"
crealeph_does work key
refused "crealeph trust $SCENE/clone/crealeph.toml"
test ! -e signing || broken "keys were made"
