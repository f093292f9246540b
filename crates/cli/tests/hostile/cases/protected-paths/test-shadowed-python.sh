# class: protected-paths
# about: with tests protected, a new module takes the place of the test runner
# before: broke
printf '[work.agents.one.paths]\nmax_invariants = 0\n' >>crealeph.toml
mkdir tests; printf 'import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail("red")\n' >tests/test_a.py; git add -A; git commit -qm tests
for file in unittest.py conftest.py sitecustomize.py json.py pyproject.toml; do
    agent_runs "mkdir -p \$(dirname $file); echo 'import sys; sys.exit(0)' >$file" --test 'python3 -m unittest discover tests'
    denied_with 'Exceeded max delta size of Q'
done
