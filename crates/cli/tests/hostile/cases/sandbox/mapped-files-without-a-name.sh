# class: sandbox
# about: deleted files that no process has open, since they are only mapped, take disk that is not counted
# before: broke
mkdir "$SCENE/view"
inside '
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
block, written = b"x" * (1 << 20), 0
for number in range(10):
    file = os.open(f"/view/{number}", os.O_RDWR | os.O_CREAT)
    for _ in range(40): written += os.write(file, block)
    os.fsync(file)
    libc.mmap(None, 4096, 1, 1, file, 0)
    os.close(file)
    os.unlink(f"/view/{number}")
time.sleep(30)
print("GOT", written)' --view "$SCENE/view=/view" --disk-bytes 100000000 --wall-ms 60000
if grep GOT "$SCENE/inside"; then broken "it got through"; fi
grep -q 'limit `disk_bytes`' "$SCENE/err" || broken "it was not ended for what it wrote"
