# class: host-execution
# about: a path that goes through git-lfs is refused by name, and no program is looked for
# before: broke
mkdir "$HOME/bin"
printf '#!/bin/sh\necho lfs >%s/pwned\ncat\n' "$OUT" >"$HOME/bin/git-lfs"
chmod +x "$HOME/bin/git-lfs"
PATH=$HOME/bin:$PATH
echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes
git add -A
git commit -qm attributes
git config filter.lfs.clean 'git-lfs clean -- %f'
git config filter.lfs.process 'git-lfs filter-process'
agent_runs 'echo x >x.bin' --publish branch:agents/x
safe
not_landed 'x.bin' 'filter=lfs'
