# class: sandbox
# about: memory that is in no process's size: memfd, System V segments, queues, a deleted file of /dev/shm
# before: held
# fails without: refusing memory that no cgroup counts
inside '
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
held, block = 0, b"x" * (1 << 20)
def write_all(fd):
    global held
    try:
        for _ in range(300): held += os.write(fd, block)
    except OSError: pass
try: write_all(os.memfd_create("m"))
except OSError: pass
fd = os.open("/dev/shm/x", os.O_RDWR | os.O_CREAT); os.unlink("/dev/shm/x"); write_all(fd)
for number in range(30):
    segment = libc.shmget(0, 10 << 20, 0o1600)
    if segment < 0: break
    at = libc.shmat(segment, None, 0)
    held += 10 << 20
if held > 250 << 20: print("GOT", held)
print("TRIED")' --memory-bytes 100000000
if grep GOT "$SCENE/inside"; then broken "it got through"; fi
grep -q 'TRIED\|memory_bytes' "$SCENE/inside" "$SCENE/err" || broken "the attack did not run: $(cat "$SCENE/err")"
