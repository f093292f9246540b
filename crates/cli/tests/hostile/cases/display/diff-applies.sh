# class: display
# about: names that need quoting must not make the exact diff useless: git applies what a pipe gets, to the last newline
# before: broke
agent_runs 'printf "z\n" >"na
me"; printf "z\n" >"sp ace"; printf "z" >"q\"uote"; printf "z\n" >"$(printf "a\342\200\256b")"; printf "one\ntwo" >a.txt; ln -s "sp ace" "li
nk"' --hold
run=$(run_of)
git clone -q . "$OUT/clone"
crealeph_does work diff "$run"
cp "$SCENE/out" "$OUT/change.diff"
cd "$OUT/clone"
git apply "$OUT/change.diff" || broken "git does not take the diff"
test "$(cat "na
me")" = z || broken "a name with a line break is lost"
test "$(wc -c <a.txt)" = 7 || broken "a missing newline was made up"
test "$(cat "q\"uote")" = z && test -L "li
nk" || broken "a quoted name or a link is lost"
cd "$WS"
CREALEPH_OUTPUT=text crealeph work diff "$run" --raw >"$SCENE/raw"
cmp "$SCENE/raw" "$OUT/change.diff" || broken "--raw is not exact"
