# class: foreign-state
# about: an archive brings a ledger with entries, which pass for what the user knows
# before: broke
(
    mkdir "$SCENE/author" && cd "$SCENE/author" && export XDG_STATE_HOME="$SCENE/author-state"
    crealeph ledger init >/dev/null 2>&1
    echo '{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{"forged":true}}' |
        crealeph ledger append >/dev/null 2>&1
)
cp -r "$SCENE/author/.crealeph" .crealeph
crealeph_does ledger list
if grep -q forged "$SCENE/out"; then broken "forged evidence is read"; fi
refused "crealeph trust --state"
