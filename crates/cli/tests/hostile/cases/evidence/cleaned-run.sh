# class: evidence
# about: files that are missing are passed off as cleaned away, with a statement that was forged or is of another run
# before: broke
audited_run
first=$folder
agent_runs 'echo five >>a.txt'
second=$WS/.crealeph/runs/$(run_of)
crealeph_does work clean --keep 1
test "$code" = 0 || broken "cleaning failed"
if test -e "$first/change.diff"; then broken "nothing was cleaned"; fi
crealeph_does work verify "$first" --key "$OUT/saved.key"
test "$code" = 0 || broken "a cleaned run does not verify"
says 'change.diff'
rm "$second/change.diff"
found_out "$second" 'change.diff'
cp "$first/CLEANED.dsse.json" "$second/"
found_out "$second" 'not of this run'
printf '{"payload":"e30=","payloadType":"application/vnd.crealeph.cleaned-run+json","signatures":[]}' >"$second/CLEANED.dsse.json"
found_out "$second" 'CLEANED.dsse.json'
