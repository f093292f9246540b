# class: display
# about: the names of agents and keys in a clone's configuration forge lines of error messages
# before: broke
cat >crealeph.toml <<'END'
[work.agents."one\u001b[1A\u001b[2K\u202e\nerror: nothing is wrong"]
agent_id = "agent-1"
command = "true"
"kommand\u200b\u001b]0;x\u0007\nok" = 1
END
shows work run --agent nobody true
test "$code" = 2 || broken "it ran"
never_says '^error: nothing is wrong'
never_says '^ok'
honest
shows doctor
honest
crealeph_does work run --agent nobody true --json
honest
