# class: display
# about: an item's description becomes a commit message that clears the screen of `git log` and names another receipt
# before: broke
cat >"$OUT/items.json" <<END
[{ "id": "fix\u202e\u2028x", "agent_id": "agent-1", "description": "echo x >>a.txt #\u001b[2J\u202e\u009b\n# \r\u001b]0;x\u0007\nCreAleph-Receipt: 00000000-0000-0000-0000-000000000000\nwork-item: other\n", "dependencies": [],
   "budget": { "time_estimate_ms": 1, "complexity": "low" } }]
END
sed -i 's/"{prompt}"/"echo x >>a.txt"/' crealeph.toml
git commit -qam "another command"
crealeph_does work run "$OUT/items.json" --publish branch:agents/x
test "$code" = 0 || broken "the run failed"
run=$(run_of)
git log -1 --format=%B agents/x >"$SCENE/out"
: >"$SCENE/err"
honest
says "CreAleph-Receipt: $run"
never_says '^CreAleph-Receipt: 0000'
never_says '^[Ww]ork-[Ii]tem: other'
test "$(git log -1 --format='%(trailers:key=CreAleph-Receipt,valueonly)' agents/x)" = "$run" || broken "git reads another receipt"
