# class: foreign-state
# about: a .crealeph that others may write to is used, so that another user of the machine steers it
# before: broke
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "the ordinary part did not work"
chmod 777 .crealeph
agent_runs 'echo y >>a.txt'
refused "others may write to"
crealeph_does ledger list
refused "others may write to"
