# class: repository-forgery
# about: a path below the hooks that is not UTF-8
# before: broke
agent_runs 'f=$(printf ".git/hooks/\377"); mkdir -p .git/hooks; echo x >"$f"; echo x >>a.txt'
test "$(status)" = denied || broken "$(status)"
