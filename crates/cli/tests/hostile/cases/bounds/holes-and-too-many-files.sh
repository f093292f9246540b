# class: bounds
# about: huge holes in more files than allowed; the count is the contract's first reason and needs no content
# before: broke
agent_runs 'for name in one two three; do truncate -s 4G $name; done' --max-files 2
denied_for '^Exceeded max files: 3 > 2$'
nothing_kept
