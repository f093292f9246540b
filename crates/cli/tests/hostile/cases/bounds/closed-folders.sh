# class: bounds
# about: folders and files without any permission make the change unreadable, and the view impossible to remove
# before: held
# fails without: removing the view whatever its modes
agent_runs 'mkdir -p d/e; echo x >d/e/f; echo y >g; chmod 000 d/e/f g d/e d'
test "$code" -lt 128 || broken "it crashed"
views=$(find "$XDG_STATE_HOME" -path '*upper/*' 2>/dev/null | head -n 1)
test -z "$views" || broken "a view is left: $views"
case $(status) in
    success) test "$(cat d/e/f)" = x || broken "the file landed unreadable" ;;
    failure | denied) nothing_kept ;;
    *) broken "the status is $(status)" ;;
esac
