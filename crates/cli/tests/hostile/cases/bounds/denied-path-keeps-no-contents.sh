# class: bounds
# about: a large file at a path that may not be changed is stored although it is refused
# before: broke
started
agent_runs 'mkdir -p .github/workflows; truncate -s 3G .github/workflows/ci.yml'
denied_for '^Denied path: .github/workflows/ci.yml$'
within 60
nothing_kept
