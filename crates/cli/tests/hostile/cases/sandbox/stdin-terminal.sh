# class: sandbox
# about: standard input is the caller's terminal, and the program writes to it, types into it and changes its settings
# before: broke
cat >"$SCENE/attack.py" <<'END'
import fcntl, os, termios
got = []
def attempt(name, act):
    try: act(); got.append(name)
    except Exception: pass
attempt("isatty", lambda: 1 / os.isatty(0))
attempt("tcgetattr", lambda: termios.tcgetattr(0))
attempt("write", lambda: os.write(0, b"typed"))
attempt("TIOCSTI", lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"))
attempt("TIOCSWINSZ", lambda: fcntl.ioctl(0, termios.TIOCSWINSZ, b"\1\0" * 4))
attempt("TIOCSCTTY", lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
try: os.write(os.open("/proc/self/fd/0", os.O_RDWR), b"typed")  # at most its own pipe
except OSError: pass
attempt("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
print("TRIED", "GOT " + " ".join(got) if got else "", input())
END
cat >"$SCENE/terminal.py" <<'END'
import os, pty, subprocess, sys, termios
leader, follower = pty.openpty()
before = termios.tcgetattr(follower)
os.write(leader, b"hello\n")
attack = open(sys.argv[1]).read()
run = subprocess.run(["crealeph", "sandbox", "run", "--", "python3", "-c", attack], stdin=follower, capture_output=True, timeout=100)
print(run.stdout.decode(), run.stderr.decode())
if termios.tcgetattr(follower) != before: print("GOT settings")
os.set_blocking(leader, False)
if b"typed" in os.read(leader, 1000): print("GOT onto the terminal")
END
python3 "$SCENE/terminal.py" "$SCENE/attack.py" >"$SCENE/inside" 2>&1
tried
grep -q hello "$SCENE/inside" || broken "what was typed did not arrive"
