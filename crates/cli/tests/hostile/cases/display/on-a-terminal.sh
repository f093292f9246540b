# class: display
# about: a real terminal gets raw bytes where CREALEPH_OUTPUT names a program as the reader
# before: broke
agent_runs 'printf "evil\033[2K\rharmless\n" >a.txt' --hold
run=$(run_of)
for reader in "" json text; do
    CREALEPH_OUTPUT=$reader script -qec "crealeph work diff $run" /dev/null </dev/null >"$SCENE/out" 2>"$SCENE/err"
    # A terminal ends its lines with CR LF itself.
    sed -i "s/$CR\$//" "$SCENE/out"
    says 'evil\x1b[2K\rharmless'
    honest
    CREALEPH_OUTPUT=$reader script -qec "crealeph sandbox run -- printf 'a\033[2Kb\n'" /dev/null </dev/null >"$SCENE/out" 2>"$SCENE/err"
    sed -i "s/$CR\$//" "$SCENE/out"
    says 'a\x1b[2Kb'
    honest
done
