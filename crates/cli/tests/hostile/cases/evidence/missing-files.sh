# class: evidence
# about: files of a run are removed, one at a time, so that no one misses them
# before: broke
audited_run
for one in change.diff replay-agent-1.sh work-item.json result.json stdout.txt stderr.txt; do
    mv "$folder/$one" "$OUT/away"
    found_out "$folder" "$one"
    mv "$OUT/away" "$folder/$one"
done
crealeph_does work verify "$folder" --key "$OUT/saved.key"
test "$code" = 0 || broken "it does not verify once everything is back"
