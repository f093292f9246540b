# class: protected-paths
# about: with tests protected, the runner's configuration or a library in the tree is changed
# before: broke
printf '[work.agents.one.paths]\nmax_invariants = 0\n' >>crealeph.toml; git commit -qam tests
for file in package.json node_modules/jest/index.js jest.config.js .cargo/config.toml Makefile; do
    agent_runs "mkdir -p \$(dirname $file); echo evil >$file"
    denied_with 'Exceeded max delta size of Q'
done
