# class: secrets
# about: a secret of digits is reported as a JSON number in another notation, which the canonical form of the receipt writes out
# before: broke
API_KEY=123456789012345
grant_secret
agent_runs 'echo "{\"tool\":\"x\",\"input\":{\"n\":1.23456789012345e14}}" >>"$CREALEPH_TRACE"; echo x >b.txt'
denied_with 'Secret in report'
nowhere 123456789012345
