# class: bounds
# about: changes that keep length and time stamps are not seen, so that more files change than are counted
# before: held
# fails without: comparing files of the same length by their contents
agent_runs 'for file in a.txt src/b.txt; do touch -r "$file" /tmp/when; tr a-z b-za <"$file" >/tmp/new; cat /tmp/new >"$file"; touch -r /tmp/when "$file"; done' --max-files 1
denied_for '^Exceeded max files: 2 > 1$'
test "$(cat src/b.txt)" = b || broken "it landed"
