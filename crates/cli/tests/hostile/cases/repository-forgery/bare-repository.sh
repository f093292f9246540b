# class: repository-forgery
# about: a folder with HEAD, objects and refs is a repository to git, with settings of the agent
# before: broke
agent_runs "mkdir -p lib; cd lib; mkdir -p objects refs/heads hooks; echo x >objects/keep; echo x >refs/keep; echo \"ref: refs/heads/main\" >HEAD; printf \"[core]\n\tbare = true\n\trepositoryFormatVersion = 0\n\" >config"
test "$(status)" = denied || broken "$(status)"
reason | grep -q 'bare repository' || broken "$(reason)"
git -C lib rev-parse --is-bare-repository 2>/dev/null | grep -qx true && broken "git takes it for a repository" || true
