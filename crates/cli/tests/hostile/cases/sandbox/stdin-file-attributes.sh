# class: sandbox
# about: the program changes mode, times and extended attributes of the file that its standard input is
# before: broke
# users: ordinary
# Started as root the program is another user, who does not own the file.
echo x >"$OUT/input"
chmod 600 "$OUT/input"
touch -d 2020-01-01 "$OUT/input"
before=$(stat -c '%a %Y' "$OUT/input")
inside '
import os
for act in (lambda: os.fchmod(0, 0o777), lambda: os.utime(0), lambda: os.setxattr(0, "user.mark", b"x"),
            lambda: os.chmod("/proc/self/fd/0", 0o777), lambda: os.utime("/dev/stdin"), lambda: os.fchown(0, -1, os.getgid())):
    try: act()
    except OSError: pass
print("TRIED")' <"$OUT/input"
tried
test "$(stat -c '%a %Y' "$OUT/input")" = "$before" || broken "changed to $(stat -c '%a %Y' "$OUT/input")"
