# class: repository-forgery
# about: an absolute link into the git folder
# before: held
agent_runs 'ln -s "$PWD/.git/hooks" tools'
test "$(status)" = denied || broken "$(status)"
test ! -L tools || broken "it was published"
safe
