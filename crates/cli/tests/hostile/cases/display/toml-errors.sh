# class: display
# about: the configuration of a clone is broken on purpose, and its error message carries escape sequences
# before: broke
printf '[work.agents.one]\nagent_id = "agent-1"\n"\033[2J\033[H%s" = \n' "$RLO" >crealeph.toml
shows work run --agent one true
test "$code" = 2 || broken "it ran"
says 'line 3'
honest
shows doctor
honest
printf '["a%sb\\u001b[2Jerror: none\\nok"]\nx = 1\n' "$RLO" >crealeph.toml
shows work run --agent one true
test "$code" = 2 || broken "an unknown section was taken"
never_says '^ok'
honest
