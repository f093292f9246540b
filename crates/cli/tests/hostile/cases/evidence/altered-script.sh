# class: evidence
# about: `replay-agent-1.sh` of a run is altered after the fact
# before: broke
audited_run
cp "$folder/replay-agent-1.sh" "$OUT/before"
chmod u+w "$folder/replay-agent-1.sh"
sed -i 's/work replay/work status; true/' "$folder/replay-agent-1.sh"
if cmp -s "$folder/replay-agent-1.sh" "$OUT/before"; then broken "the attack changed nothing"; fi
found_out "$folder" 'replay-agent-1.sh'
found_out "$folder/RECEIPT.json" 'replay-agent-1.sh'
shows work replay "$run"
test "$code" = 1 || broken "it was replayed"
says replay-agent-1.sh
