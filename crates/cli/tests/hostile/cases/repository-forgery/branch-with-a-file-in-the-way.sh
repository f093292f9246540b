# class: repository-forgery
# about: the branch has a file where the change has a folder
# before: broke
git checkout -q -b agents/x
echo file >lib
git add -A
git commit -qm file
git checkout -q main
agent_runs 'mkdir lib; echo x >lib/x; echo x >>a.txt' --publish branch:agents/x
test "$(status)" = failure || broken "$(status)"
git show agents/x:lib | grep -qx file || broken "the file is gone from the branch"
