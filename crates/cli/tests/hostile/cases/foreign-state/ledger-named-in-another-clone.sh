# class: foreign-state
# about: a ledger is named by its path, and is in the .crealeph that another clone brought
# before: broke
mkdir -p "$SCENE/other"
(
    cd "$SCENE/other" && export XDG_STATE_HOME="$SCENE/author-state"
    crealeph ledger init >/dev/null 2>&1
)
crealeph_does ledger stats --ledger "$SCENE/other/.crealeph/ledger.db"
refused "crealeph trust --state"
