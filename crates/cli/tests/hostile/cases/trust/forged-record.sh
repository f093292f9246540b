# class: trust
# about: someone else puts a record of trust into the user's state
# users: root
# before: broke
# (An ordinary user can give a file to nobody.)
unset CREALEPH_TRUST
crealeph_does trust --yes
test "$code" = 0 || broken "it cannot be trusted"
chown 4242 "$XDG_STATE_HOME"/crealeph/trust/*.json
agent_runs 'echo x >>a.txt'
refused "belongs to user 4242"
