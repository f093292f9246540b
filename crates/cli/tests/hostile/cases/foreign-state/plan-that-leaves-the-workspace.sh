# class: foreign-state
# about: a clone brings a publish whose plan has its slots in a folder outside, and clearing it removes them
# before: broke
zeros=0000000000000000000000000000000000000000000000000000000000000000
mkdir -p .crealeph/publish/1 "$OUT/.crealeph/publish/1/slots"
echo work >"$OUT/.crealeph/publish/1/thesis"
printf '{"version":1,"before":"%s","after":"%s","areas":["","../outside"],"steps":[],"emptied":[]}\n%s\n' $zeros $zeros \
    e3345570471160e54f76825fe475fa81512a08f18c33c5e412794093ba7f119e >.crealeph/publish/1/prepared
crealeph_does work recover
test -e "$OUT/.crealeph/publish/1/thesis" || broken "a folder outside was removed"
refused "crealeph trust --state"
crealeph_does trust --state --yes
crealeph_does work recover
test -e "$OUT/.crealeph/publish/1/thesis" || broken "a folder outside was removed"
refused "the plan is damaged"
