# class: display
# about: JSON that a person pipes to a terminal holds C1 and bidirectional characters of a file name as they are
# before: broke
agent_runs 'echo y >"gpj.'"$RLO"'sh"; echo z >"'"$ZWSP$CSI"'2J"; echo d >"'"$(printf '\177')"'"'
test "$code" = 0 || broken "the run failed"
honest
jq -e --arg name "$WS/gpj.${RLO}sh" '.created_files | index($name)' "$SCENE/out" >/dev/null || broken "the value changed"
crealeph_does work show
honest
