# class: host-execution
# about: the hook is in the tree when a run that was killed is settled
# before: held
# fails without: recovering without git (`git update-ref` was started)
git config core.hooksPath hooks
agent_runs "mkdir hooks; $(payload hooks/reference-transaction); $(payload hooks/post-index-change)"
landed
crealeph work run --agent one 'sleep 20' --publish branch:agents/x >/dev/null 2>&1 &
child=$!
sleep 0.7
kill -9 "$child" || true
wait "$child" || true
crealeph_does work recover
safe
