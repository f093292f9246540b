# class: trust
# about: CREALEPH_TRUST has another value than 1, which is taken for a yes
# before: broke
for CREALEPH_TRUST in no false 0 2 '' ' 1'; do
    agent_runs 'echo x >>a.txt'
    test "$code" = 2 || broken "'$CREALEPH_TRUST' was taken for a yes"
done
