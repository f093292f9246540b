# class: protected-paths
# about: with tests protected, the script that the test command names is changed
# before: broke
printf '[work.agents.one.paths]\nmax_invariants = 0\n' >>crealeph.toml
mkdir ci-scripts; echo 'exit 1' >ci-scripts/check.sh; git add -A; git commit -qm tests
agent_runs 'echo "exit 0" >ci-scripts/check.sh' --test 'cd ci-scripts && sh ./check.sh'
denied_with 'Exceeded max delta size of Q'
agent_runs 'mkdir verify; echo "" >verify/__main__.py' --test 'python3 -m verify'
denied_with 'Exceeded max delta size of Q'
agent_runs 'echo y >>src/b.txt' --test 'true'
succeeded
