# class: bounds
# about: a program with the bits that lend its owner's rights lands with them, or a folder that gives its group away
# before: held
# fails without: refusing the set-id bits on a file
agent_runs 'cp /bin/true x; chmod 6777 x'
denied_with 'the run left files that a state cannot contain: `x`'
agent_runs 'mkdir tools; cp /bin/true tools/x; chmod 777 tools/x; chmod 7777 tools'
landed
test "$(stat -c %a tools/x)" = 755 || broken "the mode of the file is $(stat -c %a tools/x)"
test "$(stat -c %a tools)" = 755 || broken "the mode of the folder is $(stat -c %a tools)"
