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
#   denied PATH                  fails unless the last work run was denied for PATH
#   refused WORDS…               fails unless the last work run did not succeed and said all of WORDS
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

denied() {
    if test "$(status)" != denied; then broken "the run was not denied"; fi
    case $(reason) in "Denied path: $1"*) ;; *) broken "denied for another reason: $(reason)" ;; esac
}

refused() {
    if test "$(status)" = success; then broken "the run was not refused"; fi
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
