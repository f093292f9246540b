# class: sandbox
# about: a thread takes a table of descriptors of its own, in which the watch does not see deleted files and sockets
# before: broke
inside '
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
CLOSE_RANGE_UNSHARE = 2
def apart():
    if libc.syscall(436, 1000, 1001, CLOSE_RANGE_UNSHARE) == 0: print("GOT a table by close_range")
    if libc.unshare(0x400) == 0: print("GOT a table by unshare")
thread = threading.Thread(target=apart)
thread.start()
thread.join()
if libc.syscall(436, 1000, 1001, 0) != 0: print("GOT no close_range at all")
print("TRIED")'
tried
inside '
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x400) == 0: print("GOT a table by unshare")
print("TRIED")' --nested-namespaces
tried
