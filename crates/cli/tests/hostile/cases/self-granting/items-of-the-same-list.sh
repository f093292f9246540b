# class: self-granting
# about: an agent edits the list of work items that it came from, to widen the bounds of those that are still to run
# before: broke
jq -n '[{id: "first", agent_id: "agent-1", description: "sed -i s/99/100000/ plan.json", dependencies: [],
    constraints: {max_files: 99}, budget: {time_estimate_ms: 1, complexity: "low"}}]' >plan.json
crealeph_does work run plan.json
denied plan.json
grep -q 99 plan.json || broken "the bounds were changed"
