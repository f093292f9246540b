# class: sandbox
# about: the program opens /proc/self/fd/0 again, for writing
# before: held
# fails without: the pipe in place of the caller's file, and Landlock, both
# users: ordinary
# Started as root the program is another user, whom the file's mode keeps out.
echo 'as it was' >"$OUT/input"
inside '
import os
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
    for path in ("/proc/self/fd/0", "/dev/stdin", "/dev/fd/0"):
        try: os.write(os.open(path, flags | os.O_NONBLOCK), b"pwned")
        except OSError: pass
print("TRIED")' <"$OUT/input"
tried
test "$(cat "$OUT/input")" = 'as it was' || broken "the file was written"
