# class: sandbox
# about: deleted files that no process has open, since they are on their way through a socket, take disk that is not counted
# before: broke
mkdir "$SCENE/view"
started
inside '
import os, socket, time
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
block, written = b"x" * (1 << 20), 0
for number in range(10):
    file = os.open(f"/view/{number}", os.O_RDWR | os.O_CREAT)
    for _ in range(40): written += os.write(file, block)
    os.fsync(file)
    socket.send_fds(one, [b"x"], [file])
    os.close(file)
    os.unlink(f"/view/{number}")
time.sleep(30)
print("GOT", written)' --view "$SCENE/view=/view" --disk-bytes 100000000 --wall-ms 60000
if grep GOT "$SCENE/inside"; then broken "it got through"; fi
grep -q 'limit `disk_bytes`' "$SCENE/err" || broken "it was not ended for what it wrote"
