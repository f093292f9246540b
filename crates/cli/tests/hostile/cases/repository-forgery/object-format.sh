# class: repository-forgery
# about: a repository whose objects are named by SHA-256 is refused before any agent runs
# before: broke
rm -rf .git
git init -q --object-format=sha256 .
git add a.txt src crealeph.toml
git commit -qm start
agent_runs 'echo x >>a.txt; echo x >'"$OUT"'/never' --publish branch:agents/x
test "$code" -eq 2 || broken "ended with $code"
grep -q "objectformat = sha256" "$SCENE/err" || broken "no word about it"
test -z "$(crealeph work status)" || broken "a run was started"
agent_runs 'echo x >>a.txt'
landed
