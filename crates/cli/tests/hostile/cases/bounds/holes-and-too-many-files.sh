# class: bounds
# about: huge holes in more files than allowed; the count is the contract's first reason and needs no content
# before: broke
started
agent_runs 'for name in one two three; do truncate -s 900G $name; done' --max-files 2
denied_for '^Exceeded max files: 3 > 2$'
within 20
nothing_kept
