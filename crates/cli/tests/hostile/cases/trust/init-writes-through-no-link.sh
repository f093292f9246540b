# class: trust
# about: a clone brings a folder `agents` that is a link, and crealeph init writes where it leads
# before: broke
mkdir "$OUT/folder" "$SCENE/new"
cd "$SCENE/new"
ln -s "$OUT/folder" agents
crealeph_does init
test -z "$(ls -A "$OUT/folder")" || broken "a file was written outside"
refused "agents\` already exists"
