# class: trust
# about: no attack: what crealeph init wrote for this user asks nothing, a copy of it by another user does
# before: broke
unset CREALEPH_TRUST
mkdir "$SCENE/new"
cd "$SCENE/new"
crealeph_does init --agent shell
for command in "ledger init" "ledger append entries.jsonl" "build request.json"; do
    crealeph_does $command
    test "$code" = 0 || broken "a newcomer is stopped at $command"
done
cp -r "$SCENE/new" "$SCENE/copy"
cd "$SCENE/copy"
crealeph_does build request.json
refused "crealeph trust $SCENE/copy/crealeph.toml"
