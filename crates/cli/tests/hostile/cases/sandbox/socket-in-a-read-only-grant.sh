# class: sandbox
# about: the program connects to the socket of a service in a directory that it may only read
# before: broke
mkdir "$OUT/granted"
chmod 755 "$OUT" "$OUT/granted"
python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen(); s.settimeout(60)
open(sys.argv[2], "w").close()
try: print(s.accept()[0].recv(100).decode())
except OSError: pass' "$OUT/granted/service" "$OUT/ready" >"$OUT/heard" &
service=$!
while ! test -e "$OUT/ready"; do sleep 0.1; done
inside '
import os, socket
os.chdir("'"$OUT"'/granted")
print(os.listdir("."))
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        s = socket.socket(socket.AF_UNIX, kind); s.connect("service"); s.send(b"pwned"); print("GOT a connection")
    except OSError as error: print(error)
print("TRIED")' --read "$OUT/granted"
kill $service 2>/dev/null || true
tried
grep -q service "$SCENE/inside" || broken "the grant is not shown"
