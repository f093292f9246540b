# class: display
# about: a file name with line breaks forges the header of another file in the diff
# before: broke
agent_runs 'printf "evil\n" >"x
diff --git README README
--- README
+++ README"' --hold
shows work diff "$(run_of)"
test "$(grep -c '^diff --git' "$SCENE/out")" = 1 || broken "one file has several headers"
never_says '^\+\+\+ README'
says '\ndiff --git README'
honest
