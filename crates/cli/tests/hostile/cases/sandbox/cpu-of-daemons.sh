# class: sandbox
# about: daemons that left their parents use up the CPU one after the other
# before: held
# fails without: adding up the CPU time of the tree
started
inside '
import os, time
end = time.time() + 60
while time.time() < end:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            stop = time.process_time() + 0.3
            while time.process_time() < stop: pass
        os._exit(0)
    os.wait()
    time.sleep(0.35)' --cpu-ms 2000
within 45
grep -q cpu_ms "$SCENE/err" "$SCENE/inside" || broken "it was not ended for its CPU time"
