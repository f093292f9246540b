# class: sandbox
# about: a command that reads one line of a file leaves the rest to the next one; none is swallowed on the way
# before: held
# fails without: putting back what the command did not read
printf 'one\ntwo\nthree\n' >"$OUT/input"
{ CREALEPH_OUTPUT=text crealeph sandbox run -- true; IFS= read -r line; } <"$OUT/input"
test "$line" = one || broken "the first line is gone: $line"
