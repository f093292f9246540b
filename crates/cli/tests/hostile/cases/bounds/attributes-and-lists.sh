# class: bounds
# about: extended attributes carry data past the bounds, and reach the workspace or the store
# before: held
# fails without: publishing contents and the executable bit alone
printf 'disk_bytes = 50000000\n' >>crealeph.toml; git commit -qam disk
agent_runs 'python3 -c "
import os
for name in range(50):
    open(str(name), \"w\").write(\"x\")
    for key in range(40):
        try: os.setxattr(str(name), f\"user.{key}\", b\"y\" * 3000)
        except OSError: break
try: os.setxattr(\"src\", \"user.overlay.opaque\", b\"y\")
except OSError: pass
"' --max-files 50
landed
if getfattr -Rd "$WS" 2>/dev/null | grep -q 'user\.'; then broken "attributes landed"; fi
if python3 -c 'import os, sys; sys.exit(not any(os.listxattr(str(n)) for n in range(50)))'; then broken "attributes landed"; fi
test "$(cat src/b.txt)" = b || broken "a file behind an opaque folder is gone"
