# class: host-execution
# about: settings and attributes name programs in the tree that show differences
# before: held
# fails without: writing branches without git (`git diff` was started)
git config diff.external "$WS/tool"
git config diff.x.command "$WS/tool"
git config diff.x.textconv "$WS/tool"
git config merge.x.driver "$WS/tool"
echo '*.txt diff=x merge=x' >.git/info/attributes
agent_runs "$(payload tool)"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
crealeph_does work diff "$(crealeph work status | jq -r 'select(.run).run' | head -n 1)"
safe
