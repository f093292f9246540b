# class: evidence
# about: a second replay script is put next to the first one, for the auditor to run
# before: broke
audited_run
printf '#!/bin/sh\necho replayed: as the receipt says\n' >"$folder/replay-agent-2.sh"
chmod +x "$folder/replay-agent-2.sh"
found_out "$folder" 'replay-agent-2.sh'
rm "$folder/replay-agent-2.sh"
ln -s /etc/passwd "$folder/notes.txt"
found_out "$folder" 'notes.txt'
rm "$folder/notes.txt"
mkdir "$folder/tools"
printf '#!/bin/sh\n' >"$folder/tools/replay.sh"
found_out "$folder" 'tools'
