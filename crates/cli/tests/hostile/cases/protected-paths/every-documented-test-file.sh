# class: protected-paths
# about: with tests protected, every file that a test runner, a build tool or an interpreter takes by its own documentation
# before: broke
printf 'hide = []\n[work.agents.one.paths]\nmax_invariants = 0\n' >>crealeph.toml; git commit -qam tests
sampled tests >"$SCENE/paths"
test "$(wc -l <"$SCENE/paths")" -gt 100 || broken "there are too few samples"
each_path 'mkdir -p "$(dirname "$1")"; echo evil >"$1"'
each_denied 'Exceeded max delta size of Q: 1 > 0'
each_path 'mkdir -p "$(dirname "$1")"; ln -sf nowhere "$1"'
each_denied 'Exceeded max delta size of Q: 1 > 0'
