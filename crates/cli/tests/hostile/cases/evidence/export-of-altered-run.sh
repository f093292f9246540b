# class: evidence
# about: an altered run is exported, so that its new home vouches for it
# before: broke
audited_run
sed -i 's/four/harmless/' "$folder/change.diff"
shows work export "$run" "$OUT/exported"
test "$code" = 1 || broken "it was exported"
says 'change.diff'
if test -e "$OUT/exported"; then broken "something was written"; fi
