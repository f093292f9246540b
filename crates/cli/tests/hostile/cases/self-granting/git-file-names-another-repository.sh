# class: self-granting
# about: a folder comes with a `.git` file that names another repository of the user's, which the agent then reads
# before: broke
git init -q --bare "$OUT/private.git"
echo "a private line" >"$OUT/private.git/description"
rm -rf .git
echo "gitdir: $OUT/private.git" >.git
agent_runs "cat $OUT/private.git/description >got.txt 2>/dev/null; echo ran >>a.txt"
test "$(status)" = success || broken "the ordinary part did not work"
if grep -q private got.txt; then broken "the agent read another repository"; fi
