# class: sandbox
# about: the same where a memory cgroup counts it: the run is ended or the write fails
# before: held
# fails without: the memory cgroup
# users: root
# An ordinary user has no memory cgroup; there the mount itself is refused.
inside '
import os, subprocess
fill = "mount -t tmpfs none /tmp && head -c 300000000 /dev/zero >/tmp/fill && stat -c %s /tmp/fill"
done = subprocess.run(["unshare", "-Urm", "sh", "-c", fill], capture_output=True, text=True)
if done.stdout.strip() == "300000000": print("GOT 300 MB")
print("TRIED")' --nested-namespaces --memory-bytes 200000000
if grep -q GOT "$SCENE/inside"; then broken "300 MB in a sandbox of 200 MB"; fi
grep -q 'TRIED\|memory_bytes' "$SCENE/inside" "$SCENE/err" || broken "the attack did not run"
