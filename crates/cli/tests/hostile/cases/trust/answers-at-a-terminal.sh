# class: trust
# about: at a terminal, anything but a yes is taken for one
# before: broke
unset CREALEPH_TRUST
CREALEPH_OUTPUT=text
into_clone
for answer in n '' x 'yy' 'no, not yet'; do
    at_a_terminal "$answer" crealeph work run --agent one 'echo x >>a.txt'
    test "$code" = 2 || broken "the answer '$answer' was taken for a yes"
    grep -q 'Trust it?' "$SCENE/out" || broken "no one was asked"
    if grep -q x a.txt; then broken "the agent ran"; fi
done
at_a_terminal y crealeph work run --agent one 'echo x >>a.txt'
test "$code" = 0 || broken "a yes was not taken for one"
at_a_terminal n crealeph work run --agent one 'echo y >>a.txt'
test "$code" = 0 || broken "what was accepted is asked for again"
