# class: host-execution
# about: the repository belongs to someone else, with hooks of theirs
# users: root
# Only root can give a folder away.
# before: held
# fails without: the check of the owner
printf '#!/bin/sh\necho hook >%s/pwned\n' "$OUT" >.git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
chown -R 65533:65533 .git
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
safe
test "$code" -ne 0 || broken "it was written to a repository of someone else"
grep -q "belongs to another user\|dubious ownership" "$SCENE/err" || broken "no word about the owner"
