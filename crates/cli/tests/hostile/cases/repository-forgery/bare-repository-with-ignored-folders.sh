# class: repository-forgery
# about: the folders are there already, ignored by git, and the agent adds HEAD
# before: broke
printf 'objects/\nrefs/\n' >.gitignore
mkdir -p lib/objects lib/refs
git add -A
git commit -qm ignore
agent_runs 'echo "ref: refs/heads/main" >lib/HEAD; printf "[core]\n" >lib/config'
test "$(status)" = denied || broken "$(status)"
