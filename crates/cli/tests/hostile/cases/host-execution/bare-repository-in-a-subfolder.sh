# class: host-execution
# about: the workspace is a folder of a repository, and the agent makes it look like a bare repository with hooks
# before: broke
mkdir sub
cp crealeph.toml sub
git add -A
git commit -qm sub
crealeph_does work run --agent one --workspace sub "mkdir -p objects refs/heads hooks; echo x >objects/keep; echo x >refs/keep; echo \"ref: refs/heads/main\" >HEAD; printf \"[core]\n\tbare = true\n\trepositoryFormatVersion = 0\n\" >config; $(payload hooks/reference-transaction)"
git -C sub rev-parse HEAD >/dev/null 2>&1 || true
safe
crealeph_does work run --agent one --workspace sub 'echo y >y' --publish branch:agents/x
landed
safe
git -C sub rev-parse --is-bare-repository | grep -qx false || broken "git takes the workspace for a bare repository"
