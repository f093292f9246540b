# class: repository-forgery
# about: two new links, each harmless to look at, lead into the git folder together
# before: broke
agent_runs 'mkdir d; ln -s ../.git d/x; ln -s d/x/hooks tools'
test "$(status)" = denied || broken "$(status)"
test ! -L tools && test ! -e d || broken "it was published"
