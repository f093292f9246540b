# class: bounds
# about: a hole of 4 GiB in an ignored place is discarded without being read, and the rest lands
# before: held
# fails without: discarding what the rules ignore
echo 'target' >.gitignore
git add -A
git commit -qm ignore
started
agent_runs 'mkdir target; truncate -s 4G target/image; echo x >>a.txt'
test "$(status)" = success || broken "the status is $(status)"
within 60
test ! -e target || broken "an ignored file landed"
