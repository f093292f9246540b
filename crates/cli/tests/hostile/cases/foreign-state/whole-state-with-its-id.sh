# class: foreign-state
# about: an archive brings the whole .crealeph of its author, with an id that the author's machine knows
# before: broke
(
    mkdir "$SCENE/author" && cd "$SCENE/author" && export XDG_STATE_HOME="$SCENE/author-state"
    cp "$WS/crealeph.toml" .
    crealeph work run --agent one 'echo forged >x' >/dev/null 2>&1
)
cp -r "$SCENE/author/.crealeph" .crealeph
for command in "work status" "work show" "work diff" "work recover" "work clean" "work key"; do
    crealeph_does $command
    if grep -q forged "$SCENE/out"; then broken "$command reads it"; fi
    refused "crealeph trust --state"
done
