# class: bounds
# about: a file of the workspace has a second name outside; a change of the one must not be a change of the other
# before: held
# fails without: exchanging a file instead of writing into it
ln "$OUT/canary" linked
git add -A; git commit -qm linked
agent_runs 'echo evil >linked; chmod 777 linked'
landed
test "$(cat linked)" = evil || broken "the change did not land"
safe
test "$(stat -c %a "$OUT/canary")" = 644 || broken "the mode of the file outside was changed"
