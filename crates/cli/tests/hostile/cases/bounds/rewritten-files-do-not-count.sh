# class: bounds
# about: only what really changed counts, also among thousands of files that were rewritten with the same content
# before: held
# fails without: comparing files with what was there
mkdir many
python3 -c '
for number in range(2500): open(f"many/{number}", "w").write(f"{number:05}")'
agent_runs 'cd many; python3 -c "
for number in range(2500): open(str(number), \"w\").write(f\"{number + (number == 7):05}\")"' --max-files 1
test "$(status)" = success || broken "the status is $(status)"
test "$(cat many/7)" = 00008 || broken "the change is missing"
