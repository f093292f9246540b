# class: repository-forgery
# about: the name of the branch climbs out of the references
# before: broke
for name in ../../HEAD ../config a..b HEAD @ -x a.lock 'a b' .hidden; do
    crealeph_does work run --agent one 'echo x >>a.txt' "--publish=branch:$name"
    test "$code" -ne 0 || broken "the branch $name was taken"
done
grep -q repositoryformatversion .git/config || broken "the configuration was changed"
