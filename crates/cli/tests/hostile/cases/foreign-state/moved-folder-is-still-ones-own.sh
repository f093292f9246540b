# class: foreign-state
# about: no attack: a workspace that its user moved and renamed is still the user's
# before: held
# fails without: knowing a folder by its id instead of its path
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "the ordinary part did not work"
cd "$SCENE"
mv ws elsewhere
cd elsewhere
crealeph_does work run --agent one 'echo y >>a.txt'
test "$(status)" = success || broken "a folder that was moved is refused"
