# class: bounds
# about: an interrupt does not end the reading of a change that takes hours
# before: broke
echo 'big' >.gitignore
truncate -s 2T big
crealeph work run --agent one 'echo >.gitignore' --timeout 1h >"$SCENE/out" 2>"$SCENE/err" </dev/null &
run=$!
sleep 4
kill -INT $run
started
wait $run || true
within 60
grep -q 'interrupted' "$SCENE/out" "$SCENE/err" || broken "it was not interrupted"
nothing_kept
