# class: sandbox
# about: a cgroup namespace of its own shows the group of the run, whose limits could be raised
# before: broke
inside '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print("user namespace", libc.unshare(0x10000000))
if libc.unshare(0x02000000) == 0: print("GOT a cgroup namespace")
if libc.unshare(0x12000000) == 0: print("GOT both")
pid = libc.syscall(56, 0x02000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
if pid > 0: print("GOT a child in one")
print("TRIED")' --nested-namespaces
tried
grep -q 'user namespace 0' "$SCENE/inside" || broken "namespaces were granted and are not there"
