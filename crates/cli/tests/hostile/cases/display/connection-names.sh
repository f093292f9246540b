# class: display
# about: the agent asks the proxy for hosts whose names forge lines in the report of its connections
# before: held
cat >>crealeph.toml <<'END'
network = ["example.com:443"]
END
git add -A; git commit -qm config
agent_runs 'python3 - <<END
import os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"))
s = socket.create_connection((proxy.hostname, proxy.port))
s.sendall("CONNECT ev\u202eil\x1b[2J:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
s.recv(1000)
END
echo x >>a.txt'
shows work show
honest
crealeph_does work show
honest
