# class: secrets
# about: a secret that only the tests have is printed by them in hexadecimal
# before: broke
TEST_KEY='tk-0123456789-abcdef'; export TEST_KEY
printf '[work.agents.one.test]\nsecrets = ["TEST_KEY"]\n' >>crealeph.toml; git commit -qam test
agent_runs 'echo x >b.txt' --test 'printf %s "$TEST_KEY" | od -An -tx1 -v; echo ran'
succeeded
grep -q ran "$SCENE/out" || broken "the test did not run"
nowhere '74 6b 2d 30'
