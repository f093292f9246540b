# class: evidence
# about: an exported run is altered on its way to the auditor: its script, its diff, a state, a content
# before: broke
audited_run
crealeph_does work export "$run" "$OUT/exported"
exported=$OUT/exported/runs/$run
crealeph_does work verify "$exported" --key "$OUT/saved.key"
test "$code" = 0 || broken "an honest export does not verify"
"$exported/replay-agent-1.sh" >"$SCENE/out" 2>"$SCENE/err" || broken "an honest export does not replay"
cp -r "$OUT/exported" "$OUT/spare"
echo 'echo pwned' >>"$exported/replay-agent-1.sh"
found_out "$exported" 'replay-agent-1.sh'
rm -rf "$OUT/exported"; cp -r "$OUT/spare" "$OUT/exported"
sed -i 's/four/harmless/' "$exported/change.diff"
found_out "$exported" 'change.diff'
shows work replay "$exported"
test "$code" = 1 || broken "an altered export was replayed"
says 'change.diff'
rm -rf "$OUT/exported"; cp -r "$OUT/spare" "$OUT/exported"
for content in "$OUT"/exported/objects/*/*; do chmod u+w "$content"; printf x >>"$content"; done
found_out "$exported" 'a.txt'
