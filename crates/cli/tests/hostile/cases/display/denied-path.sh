# class: display
# about: the path of a denied change forges the reason it is denied for
# before: broke
mkdir -p .github/workflows
CREALEPH_OUTPUT=text agent_runs 'mkdir -p .github/workflows; echo x >".github/workflows/a'"$ESC"'[1A'"$RLO"'
one: success"'
test "$code" = 1 || broken "it was not denied"
says 'Denied path'
never_says '^one: success'
honest
