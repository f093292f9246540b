# class: host-execution
# about: settings of the repository name an editor, a pager and a program for passwords in the tree
# before: held
# fails without: writing branches without git (`git commit` was started)
for key in core.editor sequence.editor core.pager pager.log core.askPass credential.helper; do git config "$key" "$WS/tool"; done
agent_runs "$(payload tool)"
landed
agent_runs 'echo y >>src/b.txt' --publish branch:agents/x
landed
safe
