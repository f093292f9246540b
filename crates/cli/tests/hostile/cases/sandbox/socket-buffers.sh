# class: sandbox
# about: thousands of sockets, each with a full buffer, hold memory that no process is charged for
# before: broke
started
inside '
import os, socket, sys, time
pairs, filled = [], 0
def fill():
    global filled
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    one.setblocking(False)
    try:
        while True: filled += one.send(b"x" * 65536)
    except BlockingIOError: pass
    pairs.append((one, other))
for number in range(1900):
    fill()
time.sleep(8)
if filled > 250000000: print("GOT", filled, "bytes in buffers")
print("TRIED")' --memory-bytes 150000000
within 100
if grep GOT "$SCENE/inside"; then broken "it got through"; fi
grep -q 'memory_bytes' "$SCENE/err" "$SCENE/inside" || broken "it was not ended for its memory"
