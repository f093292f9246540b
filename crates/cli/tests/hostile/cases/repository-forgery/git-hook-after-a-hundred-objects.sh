# class: repository-forgery
# about: the list of what was discarded ends after a hundred paths, and the hook comes later
# before: broke
agent_runs 'i=0; while test $i -lt 150; do echo $i >.git/a$i; i=$((i + 1)); done; mkdir -p .git/hooks; echo x >.git/hooks/zz; echo x >>a.txt'
denied .git/hooks/zz
