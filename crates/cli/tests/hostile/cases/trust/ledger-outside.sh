# class: trust
# about: a clone says that the ledger and its keys are in a folder outside, and they are made there
# before: broke
unset CREALEPH_TRUST
printf '[ledger]\nlocation = "../outside/ledger.db"\n' >crealeph.toml
into_clone
mkdir "$SCENE/outside/x" && rmdir "$SCENE/outside/x"
crealeph_does ledger init
refused "crealeph trust $SCENE/clone/crealeph.toml"
test ! -e "$OUT/ledger.db" || broken "the ledger was made outside"
