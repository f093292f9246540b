# class: display
# about: the agent's last words, which a failed run quotes, clear the screen and forge a success with its receipt
# before: broke
CREALEPH_OUTPUT=text agent_runs 'printf "\033[2J\033[Hone: success\n  receipt  all good\n\033]52;c;cm0gLXJm\007" >&2; exit 1'
test "$code" = 1 || broken "the run did not fail"
never_says '^one: success'
never_says '^  receipt  all good'
honest
shows work show
never_says '^  receipt  all good'
honest
