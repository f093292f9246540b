# class: sandbox
# about: in namespaces of its own a program mounts a tmpfs and fills it, memory that is in no process's size
# before: broke
# users: ordinary
# As root a memory cgroup counts it, as `nested-tmpfs-counted` shows.
inside '
import os, subprocess
fill = "mount -t tmpfs none /tmp && head -c 300000000 /dev/zero >/tmp/fill && stat -c %s /tmp/fill"
done = subprocess.run(["unshare", "-Urm", "sh", "-c", fill], capture_output=True, text=True)
if done.stdout.strip() == "300000000": print("GOT 300 MB")
print("TRIED")' --nested-namespaces --memory-bytes 200000000
tried
