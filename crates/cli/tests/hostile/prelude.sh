# The words that hostile cases are written in. A case runs with `sh -eu` in $WS and exits with 0 only if the wall held.
#
#   $WS       the workspace, a git repository with one commit on `main`; the case starts in it
#   $OUT      a folder outside it, with the file `canary`; an attack that gets through makes `$OUT/pwned`
#   $HOME     the caller's home
#   agent_runs SCRIPT [FLAGS…]   one work run whose agent runs SCRIPT; sets $code, writes $SCENE/out (JSON) and $SCENE/err
#   crealeph_does WORDS…         any command of ours; sets $code, writes $SCENE/out and $SCENE/err
#   status                       the status of the last work run: success, failure, denied, timeout
#   broken WORDS…                says what got through, and fails the case
#   payload FILE                 prints the command that writes FILE, a program that makes `$OUT/pwned` where it can
#   reason                       why the last work run was denied or failed
#   landed                       fails unless the last work run succeeded
#   not_landed WORDS…            fails unless the last work run did not succeed and said all of WORDS
#   safe                         fails unless `$OUT/pwned` is absent and the canary is as it was

WS=$SCENE/ws
OUT=$SCENE/outside
HOME=$SCENE/home
XDG_STATE_HOME=$SCENE/state
TMPDIR=$SCENE/tmp
USER=ana
# What `crealeph trust` would be asked about; a case about trust unsets it.
CREALEPH_TRUST=1
CREALEPH_OUTPUT=json
LC_ALL=C.UTF-8
export WS OUT HOME XDG_STATE_HOME TMPDIR USER CREALEPH_TRUST CREALEPH_OUTPUT LC_ALL
umask 022

broken() {
    echo "BROKEN: $*"
    for file in "$SCENE/out" "$SCENE/err"; do
        if test -f "$file"; then echo "--- ${file##*/}"; cat "$file"; fi
    done
    exit 1
}

crealeph_does() {
    code=0
    crealeph "$@" >"$SCENE/out" 2>"$SCENE/err" </dev/null || code=$?
    if test "$code" -ge 128 || grep -q "panicked at" "$SCENE/err"; then broken "crealeph $* ended with $code"; fi
}

agent_runs() {
    crealeph_does work run --agent one "$@"
}

status() {
    jq -r 'select(.status).status' "$SCENE/out" | head -n 1
}

safe() {
    if test -e "$OUT/pwned"; then broken "something ran or wrote outside: $(cat "$OUT/pwned" 2>/dev/null)"; fi
    if test "$(cat "$OUT/canary")" != "as it was"; then broken "the canary was changed"; fi
}

payload() {
    printf 'printf "#!/bin/sh\\necho %s >%s/pwned\\n" >"%s"; chmod +x "%s"' "$1" "$OUT" "$1" "$1"
}

reason() {
    jq -r 'select(.status) | .denial_reason // .error // empty' "$SCENE/out" | head -n 1
}

landed() {
    if test "$(status)" != success; then broken "the run did not succeed"; fi
}

not_landed() {
    if test "$(status)" = success; then broken "the run succeeded"; fi
    for word in "$@"; do cat "$SCENE/out" "$SCENE/err" | grep -qF -- "$word" || broken "no word about $word"; done
}

# The usual scene.
echo "as it was" >"$OUT/canary"
printf '[user]\n\tname = Ana\n\temail = ana@example.com\n[init]\n\tdefaultBranch = main\n' >"$HOME/.gitconfig"
cat >"$WS/crealeph.toml" <<'END'
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]
END
printf 'one\ntwo\nthree\n' >"$WS/a.txt"
mkdir "$WS/src"
echo b >"$WS/src/b.txt"
cd "$WS"
git init -q .
git add -A
git commit -qm start

# item DESCRIPTION [ID]: one work item for the agent `one`, in $SCENE/items.json.
item() {
    jq -n --arg text "$1" --arg id "${2:-item}" '[{id: $id, agent_id: "agent-1", description: $text, dependencies: [],
        budget: {time_estimate_ms: 1, complexity: "low"}}]' >"$SCENE/items.json"
}

# denied PATH: the last run was denied because of this path.
denied() {
    if test "$(status)" != denied || ! grep -qF "Denied path: $1" "$SCENE/out"; then broken "expected a denial of $1"; fi
}

# refused WORDS: the last command could not be done (exit code 2), and said why in these words.
refused() {
    if test "$code" != 2 || ! grep -qF -- "$1" "$SCENE/err"; then broken "expected exit code 2 and: $1"; fi
}

# into_clone: goes to a fresh clone of $WS, as a user who has seen none of it.
into_clone() {
    git add -A
    git commit -qm more --allow-empty
    git clone -q "$WS" "$SCENE/clone"
    cd "$SCENE/clone"
}

# at_a_terminal ANSWER WORDS…: a command of ours at a terminal, where someone answers every question so; all it prints is in $SCENE/out.
at_a_terminal() {
    code=0
    python3 -c '
import os, pty, sys
answer, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
printed = b""
asked = 0
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:
        break
    if not some:
        break
    printed += some
    if printed.count(b"[y/N]") > asked:
        asked += 1
        os.write(terminal, answer.encode() + b"\n")
sys.stdout.buffer.write(printed)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
' "$@" >"$SCENE/out" 2>"$SCENE/err" </dev/null || code=$?
}

# listening: a server on 127.0.0.1 that makes $OUT/pwned when anyone connects; its port is in $port.
listening() {
    python3 -c '
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
server.settimeout(20)
open(sys.argv[1], "w").write(str(server.getsockname()[1]))
connection, _ = server.accept()
connection.settimeout(1)
open(sys.argv[2], "w").write("a connection")
' "$SCENE/port" "$OUT/pwned" >/dev/null 2>&1 &
    listener=$!
    trap 'kill $listener 2>/dev/null || true' EXIT
    while ! test -s "$SCENE/port"; do sleep 0.02; done
    port=$(cat "$SCENE/port")
}

# Words for what a person reads (class display) and what an auditor checks (class evidence).
#   ESC CR BEL CSI RLO LRM ZWSP   characters that must never be printed as they are
#   shows WORDS…                  a command of ours, as a person sees it; sets $code, writes $SCENE/out and $SCENE/err
#   honest                        fails if what was printed holds a control, bidirectional or invisible character
#   says TEXT / never_says REGEX  whether what was printed has this text, or a line that matches
#   run_of                        the run of the last work run or held change
ESC=$(printf '\033') CR=$(printf '\r') BEL=$(printf '\007') CSI=$(printf '\302\233')
RLO=$(printf '\342\200\256') LRM=$(printf '\342\200\216') ZWSP=$(printf '\342\200\213')

shows() {
    code=0
    CREALEPH_OUTPUT=text crealeph "$@" >"$SCENE/out" 2>"$SCENE/err" </dev/null || code=$?
    if test "$code" -ge 128 || grep -q "panicked at" "$SCENE/err"; then broken "crealeph $* ended with $code"; fi
}

honest() {
    for file in "$SCENE/out" "$SCENE/err"; do
        if grep -qaP '[\x00-\x08\x0b-\x1f\x7f]' "$file"; then broken "a control character was printed"; fi
        if grep -qP '[\x{80}-\x{9f}\x{ad}\x{61c}\x{115f}\x{1160}\x{180b}-\x{180f}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff9}-\x{fffb}\x{e0000}-\x{e0fff}]' "$file"; then
            broken "a C1, bidirectional or invisible character was printed"
        fi
    done
}

says() {
    grep -qaF -- "$1" "$SCENE/out" "$SCENE/err" || broken "it does not say: $1"
}

never_says() {
    if grep -qaE -- "$1" "$SCENE/out" "$SCENE/err"; then broken "it says: $1"; fi
}

run_of() {
    jq -r 'select(.status) | .receipt_id // .run' "$SCENE/out" | head -n 1
}

# A run that succeeded, with the key that an auditor kept; sets $run and $folder.
audited_run() {
    agent_runs 'echo four >>a.txt; echo said; echo warned >&2' --test 'echo tested'
    test "$code" = 0 || broken "the run failed"
    run=$(run_of)
    folder=$WS/.crealeph/runs/$run
    crealeph_does work key
    cp "$SCENE/out" "$OUT/saved.key"
    crealeph_does work verify "$folder" --key "$OUT/saved.key"
    test "$code" = 0 || broken "an honest run does not verify"
}

# Fails unless `work verify` of $1 finds something wrong that names $2.
found_out() {
    crealeph_does work verify "$1" --key "$OUT/saved.key"
    test "$code" = 1 || broken "nothing was found"
    says "$2"
    jq -e '.ok == false' "$SCENE/out" >/dev/null || broken "it says ok"
    shows work verify "$1" --key "$OUT/saved.key"
    test "$code" = 1 || broken "nothing was found"
    says "$2"
    honest
}

# Words about bounds. `seconds` is how long the last `agent_runs` or `crealeph_does` may take; `took` fails past it.
#   nothing_kept   fails if a content, a state or a temporary file of a run that did not land is in `.crealeph`,
#                  but for the one file that `crealeph work retry` needs
#   denied_for TEXT   fails unless the last run was denied with this reason (a basic regular expression)
started() {
    begin=$(date +%s)
}

within() {
    spent=$(($(date +%s) - begin))
    if test "$spent" -gt "$1"; then broken "it took $spent s, and $1 s would be long"; fi
}

nothing_kept() {
    left=$(cd "$WS/.crealeph" && find objects states references temporary publish -type f 2>/dev/null | head -n 5)
    if test -n "$left"; then broken "left in .crealeph: $left"; fi
    bytes=$(du -sk --exclude=capsule.pack "$WS/.crealeph" | cut -f 1)
    if test "$bytes" -gt 4096; then broken ".crealeph takes $bytes KiB"; fi
    views=$(find "$XDG_STATE_HOME" -path '*upper/*' 2>/dev/null | head -n 1)
    if test -n "$views"; then broken "a view is left: $views"; fi
}

denied_for() {
    if test "$(status)" != denied; then broken "the status is $(status), not denied"; fi
    reason=$(jq -r 'select(.denial_reason).denial_reason' "$SCENE/out" | head -n 1)
    if ! echo "$reason" | grep -q "$1"; then broken "the reason is: $reason"; fi
}

#   inside SCRIPT [FLAGS…]   `crealeph sandbox run FLAGS -- python3 -c SCRIPT`; sets $code, writes $SCENE/inside and $SCENE/err
inside() {
    script=$1
    shift
    code=0
    CREALEPH_OUTPUT=text crealeph sandbox run "$@" -- python3 -c "$script" >"$SCENE/inside" 2>"$SCENE/err" || code=$?
    if grep -q "panicked at" "$SCENE/err"; then broken "crealeph panicked"; fi
}

#   tried   fails unless the script inside came to its last line, `print("TRIED")`, and printed no line with GOT
tried() {
    if ! grep -q TRIED "$SCENE/inside"; then broken "the attack did not run: $(cat "$SCENE/inside")"; fi
    if grep GOT "$SCENE/inside"; then broken "it got through"; fi
}

# About secrets: `grant_secret [MORE TOML]` grants $API_KEY to agent `one`; `nowhere TEXT…` fails if a text is in anything that was
# kept or printed; `denied_with WORDS` fails unless the last run was denied, with these words.
API_KEY='sk-live-Zm9v/bar+7Q9x&2w'
export API_KEY
grant_secret() {
    printf 'secrets = ["API_KEY"]\n%s\n' "${1:-}" >>"$WS/crealeph.toml"
    git -C "$WS" commit -qam grant
}
nowhere() {
    for text in "$@"; do
        found=$(grep -rlaF -e "$text" "$WS" "$SCENE/out" "$SCENE/err" "$XDG_STATE_HOME" 2>/dev/null || true)
        if test -n "$found"; then broken "\`$text\` is in $found"; fi
        if git -C "$WS" log --all -p --format=%B 2>/dev/null | grep -qaF -e "$text"; then broken "\`$text\` is in a commit"; fi
    done
}
denied_with() {
    if test "$(status)" != denied; then broken "the run was not denied but $(status)"; fi
    if ! grep -qF -e "$1" "$SCENE/out"; then broken "it was denied in other words than: $1"; fi
}
succeeded() {
    if test "$(status)" != success; then broken "the ordinary part did not succeed"; fi
}

# About paths: `no_agent_may_write PATH…` fails if a run that writes one of these lands, each in a run of its own.
no_agent_may_write() {
    for path in "$@"; do
        agent_runs "mkdir -p \"\$(dirname '$path')\"; echo evil >'$path'"
        why=$(jq -r 'select(.denial_reason).denial_reason' "$SCENE/out")
        case $why in "Denied path: $path"*) ;; *) broken "an agent wrote $path: $(status), $why" ;; esac
        if test -e "$WS/$path"; then broken "$path landed"; fi
    done
}

# About the paths of crates/decision/tests/protected-paths.txt: `sampled CLASS` prints them, a line each; `each_path SCRIPT` runs SCRIPT with each
# line of $SCENE/paths as $1, as one work item per path; `each_denied TEXT` fails unless every one was denied with TEXT, in which PATH is the path.
sampled() {
    awk -v class="$1:" '/^[a-z]/ { on = $1 == class } /^    / && on { print substr($0, 5) }' "$SCENE/protected-paths.txt"
}
each_path() {
    jq -Rn --arg script "$1" '[foreach inputs as $path (0; . + 1; {id: "path-\(.)", agent_id: "agent-1",
        description: "set -- \($path | @sh); \($script)", dependencies: [],
        budget: {time_estimate_ms: 1, complexity: "low"}})]' <"$SCENE/paths" >"$SCENE/items.json"
    crealeph_does work run "$SCENE/items.json"
}
each_denied() {
    jq -Rrn --arg text "$1" --slurpfile lines "$SCENE/out" '
        ($lines | map({key: (.id // ""), value: "\(.status): \(.denial_reason // .error)"}) | from_entries) as $ends
        | foreach inputs as $path (0; . + 1; [$path, $ends["path-\(.)"]])
        | . as [$path, $outcome] | select(($outcome // "") | startswith("denied: " + ($text | sub("PATH"; $path))) | not) | "\($path): \($outcome)"
        ' <"$SCENE/paths" >"$SCENE/landed"
    if test -s "$SCENE/landed"; then
        rm "$SCENE/out"
        broken "not denied with $1: $(cat "$SCENE/landed")"
    fi
}
