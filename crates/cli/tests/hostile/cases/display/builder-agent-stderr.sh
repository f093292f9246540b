# class: display
# about: a planning agent fails, and what it wrote to standard error is quoted in the reason, with escape sequences
# before: broke
crealeph_does init "$OUT/b" --agent shell
cd "$OUT/b"
crealeph_does ledger init
crealeph_does ledger append entries.jsonl
printf 'printf "\\033[2J\\033[HExecution x: succeeded\\n\\302\\2332J" >&2; exit 3\n' >agents/planner.sh
shows build request.json
test "$code" = 5 || broken "the agent did not fail"
never_says '^Execution x: succeeded'
honest
shows execution why
never_says '^Execution x: succeeded'
honest
crealeph_does build request.json
honest
shows agent check planner@1 --case unicode
honest
