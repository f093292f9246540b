# class: host-execution
# about: the same with the configuration of the git folder
# before: broke
rm -rf .git
mkdir meta
git init -q --separate-git-dir=meta/repo .
git add a.txt src crealeph.toml
git commit -qm start
agent_runs "printf '[core]\n\tfsmonitor = %s\n' 'echo fsmonitor >$OUT/pwned; false' >>meta/repo/config"
test "$(status)" = denied || broken "the configuration of the git folder was published"
git status >/dev/null
safe
