# class: display
# about: the tests' output, quoted in the reason of a failure, carries escape sequences, links and line overwrites
# before: broke
CREALEPH_OUTPUT=text agent_runs 'echo x >>a.txt' --test 'printf "FAILED\rok    \n\033]8;;http://evil\033\\click\033]8;;\033\\\n\033P+q\033\\\n\302\2332J\342\200\256"; : "'"$ESC[2J$RLO"'"; exit 1'
test "$code" = 1 || broken "the run did not fail"
honest
shows work show
honest
crealeph_does work show
honest
