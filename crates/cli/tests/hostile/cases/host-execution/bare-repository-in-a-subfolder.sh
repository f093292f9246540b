# class: host-execution
# about: the workspace is a folder of a repository, and the agent makes it a bare repository with hooks
# before: broke
mkdir sub
cp crealeph.toml sub
git add -A
git commit -qm sub
crealeph_does work run --agent one --workspace sub "git init -q t; git -C t -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
    rm -rf t/.git/hooks t/.git/logs t/.git/info t/.git/description t/.git/COMMIT_EDITMSG t/.git/index; cp -r t/.git/* .; rm -rf t; git config -f config core.bare true; mkdir hooks; $(payload hooks/reference-transaction)"
case $(reason) in "" | *"bare repository"*) ;; *) broken "the scene is not set" ;; esac
crealeph_does work run --agent one --workspace sub 'echo y >y' --publish branch:agents/x
safe
landed
git -C sub rev-parse --is-bare-repository | grep -qx false || broken "git takes the workspace for a bare repository"
