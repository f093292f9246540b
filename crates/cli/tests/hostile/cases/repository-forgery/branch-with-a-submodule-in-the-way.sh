# class: repository-forgery
# about: the branch has a submodule where the change has files
# before: broke
git init -q "$SCENE/lib"
git -C "$SCENE/lib" commit -q --allow-empty -m lib
git checkout -q -b agents/x
git -c protocol.file.allow=always submodule add -q "$SCENE/lib" lib
git commit -qm submodule
git checkout -q main
rm -rf lib
agent_runs 'mkdir -p lib; echo x >lib/x; echo x >>a.txt' --publish branch:agents/x
test "$(status)" = failure || broken "$(status)"
git ls-tree agents/x lib | grep -q '^160000' || broken "the submodule is gone from the branch"
