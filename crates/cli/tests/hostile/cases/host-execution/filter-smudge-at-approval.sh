# class: host-execution
# about: a smudge filter would run when a held change is merged with what the branch has since
# before: broke
printf 'cat\n' >smudge.sh
echo 'src/*.txt filter=up' >.gitattributes
git add -A
git commit -qm attributes
git config filter.up.smudge "sh ./smudge.sh"
agent_runs 'echo y >>a.txt' --publish branch:agents/x --hold
run=$(jq -r 'select(.run).run' "$SCENE/out" | head -n 1)
git branch agents/x
git worktree add -q --no-checkout "$SCENE/other" agents/x
(cd "$SCENE/other" && git reset -q && git -c core.hooksPath=/dev/null commit -q --allow-empty -m empty
    blob=$(echo moved | git hash-object -w --stdin) && git update-index --cacheinfo "100644,$blob,src/b.txt" && git commit -qm moved)
git worktree remove --force "$SCENE/other"
echo "echo smudge >$OUT/pwned; cat" >smudge.sh
crealeph_does work approve "$run" --reason fine
safe
