# class: bounds
# about: 3,000 empty folders cost nothing but the listing
# before: held
# fails without: leaving folders out of a change
started
agent_runs 'python3 -c "
import os
for number in range(3000): os.mkdir(str(number))"; echo x >>a.txt' --max-files 1
test "$(status)" = success || broken "the status is $(status)"
within 60
test "$(ls -d [0-9]* 2>/dev/null | wc -l)" = 0 || broken "empty folders landed"
