# class: display
# about: names of branches are quoted in errors and reports, with what git allows in them
# before: broke
shows work run --agent one 'echo x >>a.txt' --publish "branch:agents/x${RLO}y$ZWSP"
honest
shows work show
honest
shows work run --agent one 'echo x >>a.txt' --publish "branch:../$ESC[2J"
test "$code" != 0 || broken "it took a bad branch"
honest
