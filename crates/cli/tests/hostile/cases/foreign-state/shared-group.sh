# class: foreign-state
# about: no attack: with a umask that leaves files to a group, one's own folder is still one's own
# before: held
# fails without: letting modes count only in a folder that others can enter
umask 002
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "the first run"
crealeph_does ledger stats
test "$code" = 0 || broken "its ledger"
agent_runs 'echo y >>a.txt'
test "$(status)" = success || broken "the second run"
