# class: sandbox
# about: tens of thousands of pipes, each filled, hold memory that no process is charged for
# before: broke
# users: ordinary
# As root a memory cgroup may count them; without one the watch does.
inside '
import os, time
block = b"x" * 65536
children = []
for child in range(60):
    if os.fork() == 0:
        pipes = []
        try:
            while True: pipes.append(os.pipe())
        except OSError: pass
        for _, end in pipes:
            os.set_blocking(end, False)
            try:
                while True: os.write(end, block)
            except OSError: pass
        time.sleep(20)
        os._exit(0)
for _ in range(60): os.wait()
print("GOT them all")' --memory-bytes 150000000 --processes 100 --wall-ms 60000
if grep GOT "$SCENE/inside"; then broken "it got through"; fi
grep -q 'memory_bytes' "$SCENE/err" || broken "it was not ended for its memory: $(cat "$SCENE/err")"
