# class: sandbox
# about: children that no one waits for use up the CPU, each a little, so that no account has them
# before: broke
started
inside '
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.time() + 60
while time.time() < end:
    ended, alive = os.pipe()
    if os.fork() == 0:
        stop = time.process_time() + 0.3
        while time.process_time() < stop: pass
        os._exit(0)
    os.close(alive)
    os.read(ended, 1)
    os.close(ended)' --cpu-ms 2000
within 45
grep -q cpu_ms "$SCENE/err" "$SCENE/inside" || broken "it was not ended for its CPU time: $(cat "$SCENE/err")"
