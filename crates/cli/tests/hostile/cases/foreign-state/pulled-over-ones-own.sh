# class: foreign-state
# about: a repository tracks files in .crealeph, which a pull puts over the user's own, since git overwrites what is ignored
# before: broke
git clone -q "$WS" "$SCENE/clone"
(
    mkdir -p .crealeph/runs
    echo '{"event":"began","batch":"forged","at":"2026-01-01T00:00:00.000Z"}' >.crealeph/runs/journal.jsonl
    git add -f .crealeph
    git commit -qm state
)
cd "$SCENE/clone"
agent_runs 'echo x >>src/b.txt'
test "$(status)" = success || broken "the ordinary part did not work"
git checkout -q -- .
git pull -q
grep -q forged .crealeph/runs/journal.jsonl || broken "the attack did not work"
agent_runs 'echo y >>src/b.txt'
refused "git tracks files in"
