# class: repository-forgery
# about: an absolute link into the git folder
# before: held
# fails without: refusing links that leave the workspace and links with `.git` in their target, both
agent_runs 'ln -s "$PWD/.git/hooks" tools'
test "$(status)" = denied || broken "$(status)"
test ! -L tools || broken "it was published"
safe
