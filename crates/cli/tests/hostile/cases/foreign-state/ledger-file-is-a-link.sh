# class: foreign-state
# about: a clone brings a ledger that is a link into a folder where the clone's author reads along
# before: held
# fails without: refusing links in `.crealeph`
mkdir .crealeph "$OUT/folder"
ln -s "$OUT/folder/ledger.db" .crealeph/ledger.db
crealeph_does ledger init
test ! -e "$OUT/folder/ledger.db" || broken "the ledger was made outside"
refused ".crealeph/ledger.db\` is a link"
