# class: foreign-state
# about: root runs in a workspace whose .crealeph belongs to someone else, who decides what root undoes and signs
# users: root
# before: broke
# (An ordinary user can give a folder to nobody.)
# holds: invariant 16
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "the ordinary part did not work"
chown -R 4242 .crealeph
agent_runs 'echo y >>a.txt'
refused "belongs to user 4242, and you are user 0"
