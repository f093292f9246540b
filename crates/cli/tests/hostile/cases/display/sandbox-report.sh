# class: display
# about: a sandboxed program prints sequences for the caller's terminal, and leaves file names that forge the report
# before: broke
shows sandbox run --view "$WS" -- sh -c 'printf "\033]52;c;cm0=\007out\r\n\302\233" ; printf "\033[2J" >&2; echo x >"a
sandbox: 0 changes'"$RLO"'"'
test "$code" = 0 || broken "it failed"
never_says '^sandbox: 0 changes'
says '\x1b]52'
honest
shows sandbox explain --view "$WS" --env "A$RLO=1" -- true
honest
# A program that reads the output still gets exactly that.
crealeph_does sandbox run -- printf '\033x\302\233'
test "$(od -An -c "$SCENE/out" | tr -d ' \n')" = '033x302233' || broken "a pipe does not get the exact bytes"
