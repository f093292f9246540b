# class: bounds
# about: blocks are taken past the end of a file, which stays short: its length says nothing of the disk that it takes
# before: broke
printf 'disk_bytes = 50000000\n' >>crealeph.toml; git commit -qam disk
started
agent_runs 'python3 -c "
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
KEEP_SIZE = 1
for name in \"wxyz\":
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    libc.fallocate(file, KEEP_SIZE, 0, 40 << 20)
    print(os.fstat(file).st_blocks)
time.sleep(15)"'
denied_for 'limit `disk_bytes` 50000000'
within 60
nothing_kept
