# class: repository-forgery
# about: the folder of another version control system is ignored by git, so the change would pass unseen
# before: broke
echo .hg >.gitignore
mkdir .hg
echo old >.hg/hgrc
git add -A
git commit -qm ignore
agent_runs 'echo evil >.hg/hgrc; echo x >>a.txt'
denied .hg/hgrc
grep -qx old .hg/hgrc || broken "it was changed"
