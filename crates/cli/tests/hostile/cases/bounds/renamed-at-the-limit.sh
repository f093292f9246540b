# class: bounds
# about: with as many files as allowed, renames, swaps and hard links hide one more
# before: broke
agent_runs 'mv a.txt c.txt' --max-files 1
denied_for '^Exceeded max files: 2 > 1$'
agent_runs 'mv a.txt t; mv src/b.txt a.txt; mv t src/b.txt' --max-files 1
denied_for '^Exceeded max files: 2 > 1$'
agent_runs 'echo x >c.txt; ln c.txt d.txt' --max-files 1
denied_for '^Exceeded max files: 2 > 1$'
agent_runs 'mv src lib' --max-files 1
denied_for '^Exceeded max files: 2 > 1$'
nothing_kept
