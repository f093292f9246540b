# class: protected-paths
# about: with tests protected, tests are deleted, renamed or emptied
# before: held
# fails without: the list of tests
printf '[work.agents.one.paths]\nmax_invariants = 0\n' >>crealeph.toml
mkdir tests; echo 'exit 1' >tests/a.sh; git add -A; git commit -qm tests
for attack in 'rm -r tests' ': >tests/a.sh' 'mv tests Tests'; do
    agent_runs "$attack"
    denied_with 'Exceeded max delta size of Q'
done
