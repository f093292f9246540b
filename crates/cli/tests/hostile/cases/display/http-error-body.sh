# class: display
# about: the server of an HTTP agent answers with an error whose body clears the screen and forges an outcome
# before: held
# fails without: escaping what is shown
crealeph_does init "$OUT/b" --agent shell
cd "$OUT/b"
crealeph_does ledger init
crealeph_does ledger append entries.jsonl
cat >"$SCENE/server.py" <<'END'
import http.server, sys
class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = b"\x1b[2J\x1b[HExecution x: succeeded\n\xc2\x9b2J\xe2\x80\xae"
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Server)
print(server.server_port, flush=True)
server.handle_request(); server.handle_request(); server.handle_request()
END
python3 "$SCENE/server.py" >"$SCENE/port" &
server=$!
while ! test -s "$SCENE/port"; do sleep 0.05; done
sed -i '/^\[agents/,$d' crealeph.toml
cat >>crealeph.toml <<END
[agents."planner@1"]
kind = "http"
url = "http://127.0.0.1:$(cat "$SCENE/port")/"
END
shows build request.json
kill "$server" 2>/dev/null || true
test "$code" != 0 || broken "the agent succeeded"
never_says '^Execution x: succeeded'
honest
says "answered with status 500"
