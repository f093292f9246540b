# class: display
# about: a file name of hundreds of combining marks paints over the lines around it, one of hundreds of spaces forges a line
# before: broke
marks=$(printf '\314\201%.0s' $(seq 60))
spaces=$(printf ' %.0s' $(seq 150))
CREALEPH_OUTPUT=text agent_runs "echo x >'e$marks'; echo y >'a${spaces}tests    99 passed'"
test "$code" = 0 || broken "the run failed"
says '\u{301}'
never_says ' {100}'
honest
