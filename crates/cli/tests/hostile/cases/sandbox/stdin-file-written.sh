# class: sandbox
# about: standard input is a file that was opened for reading and writing, and the program writes to it
# before: broke
printf 'line one\nline two\n' >"$OUT/input"
chmod 666 "$OUT/input"
inside '
import os
print(input())
for act in (lambda: os.write(0, b"GOT"), lambda: os.ftruncate(0, 0), lambda: os.posix_fallocate(0, 0, 1 << 20)):
    try: act(); print("GOT")
    except OSError: pass
print("TRIED")' <>"$OUT/input"
tried
grep -q 'line one' "$SCENE/inside" || broken "standard input was not passed on"
test "$(cat "$OUT/input")" = "$(printf 'line one\nline two')" || broken "the file was changed"
