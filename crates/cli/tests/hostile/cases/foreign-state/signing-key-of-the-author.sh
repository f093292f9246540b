# class: foreign-state
# about: an archive brings a signing key, so that its author can sign receipts in the user's name
# before: broke
(
    mkdir "$SCENE/author" && cd "$SCENE/author" && export XDG_STATE_HOME="$SCENE/author-state"
    cp "$WS/crealeph.toml" .
    crealeph work run --agent one 'echo x >x' >/dev/null 2>&1
    crealeph work key >"$SCENE/author.key"
)
test -s "$SCENE/author.key" || broken "the author has no key"
mkdir .crealeph
cp -r "$SCENE/author/.crealeph/name" "$SCENE/author/.crealeph/ledger.db.keys" .crealeph/
agent_runs 'echo x >>a.txt'
refused "crealeph trust --state"
crealeph_does work key
if cmp -s "$SCENE/out" "$SCENE/author.key"; then broken "runs are signed with the author's key"; fi
refused "crealeph trust --state"
