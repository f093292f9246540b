# class: display
# about: a program asks the proxy for hosts whose names forge lines in the report of its connections
# before: broke
cat >"$OUT/ask.py" <<'END'
import os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"))
for name in ["ev\u202eil\x1b[2J", "a\x1b[1A\nsandbox: connected to bank.example:443\n"]:
    s = socket.create_connection((proxy.hostname, proxy.port))
    s.sendall(f"CONNECT {name}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    s.recv(1000)
END
shows sandbox run --host example.com:443 --read "$OUT" -- python3 "$OUT/ask.py"
says 'sandbox: refused'
never_says '^sandbox: connected to bank'
honest
cat >>crealeph.toml <<'END'
network = ["example.com:443"]
END
git add -A
git commit -qm config
agent_runs "echo x >>a.txt; python3 - <<'END'
$(cat "$OUT/ask.py")
END"
test "$code" = 0 || broken "the run failed"
shows work show
says 'network  '
honest
crealeph_does work show
honest
