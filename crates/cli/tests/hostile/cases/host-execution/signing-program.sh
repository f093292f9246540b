# class: host-execution
# about: the repository signs commits with a program in the tree
# before: held
# fails without: writing branches without git (`git commit` was started)
git config commit.gpgSign true
git config gpg.program "$WS/tool"
git config gpg.format openpgp
git config user.signingKey ana
agent_runs "$(payload tool)"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
