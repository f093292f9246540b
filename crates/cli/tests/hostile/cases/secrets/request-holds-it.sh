# class: secrets
# about: the caller writes the secret into the task, from where it would go to the receipt, the ledger and the commit
# before: broke
grant_secret
agent_runs "echo $API_KEY >/dev/null; echo x >b.txt" --publish branch:agents/x
if test "$code" != 2; then broken "it was run ($code)"; fi
grep -q "contains a secret that its agent is granted" "$SCENE/err" || broken "it was refused for another reason"
nowhere 'bar+7Q9x'
