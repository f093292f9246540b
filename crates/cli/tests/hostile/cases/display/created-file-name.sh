# class: display
# about: the name of a created file forges another line of the report, erases one, and reorders itself
# before: broke
CREALEPH_OUTPUT=text agent_runs 'echo x >"a
  tests    99 passed, 0 failed'"$ESC"'[2K'"$CR"'"; echo y >"gpj.'"$RLO"'sh"; echo z >"'"$ZWSP$CSI"'"'
test "$code" = 0 || broken "the run failed"
never_says '^  tests    99 passed'
says 'a\n  tests    99 passed'
says 'gpj.\u{202e}sh'
honest
shows work show
never_says '^  tests    99 passed'
honest
