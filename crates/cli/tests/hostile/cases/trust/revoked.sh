# class: trust
# about: trust that was revoked is still in force
# before: broke
unset CREALEPH_TRUST
crealeph_does trust --yes
agent_runs 'echo x >>a.txt'
test "$(status)" = success || broken "what was trusted does not run"
crealeph_does trust --revoke
test "$code" = 0 || broken "it cannot be taken back"
agent_runs 'echo y >>a.txt'
refused "crealeph trust $WS/crealeph.toml"
