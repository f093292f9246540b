# The rule of policy-engine-v1 §6 and §7 as far as every engine here can express it (R21–R23).
package crealeph.policy

import rego.v1

# For each action the timestamps that must be fresh; of alternatives one is enough.
needs := {
	"builder.run": [["signalsAt"], ["fusionAt"]],
	"competitors.run_insights": [],
	"copywriter.run": [["ideaAt"], ["signalsAt", "fusionAt"]],
	"fusion.run": [],
	"ideator.run": [["signalsAt", "fusionAt"]],
	"market_twin.run": [["signalsAt"]],
	"playbooks.v1.run": [["fusionAt"], ["ideaAt"], ["benchmarkAt"]],
	"playbooks.v2.run": [["fusionAt"], ["ideaAt"], ["benchmarkAt"]],
	"robots.run": [],
	"work.run": [],
}

default decision := "DEFER"

decision := "BLOCK" if input.coherenceStatus == "stale"

decision := "ALLOW" if {
	input.coherenceStatus == "partial"
	input.requestedAction == "builder.run"
	input.thresholds.allowDraftOnly == 1
}

decision := "ALLOW" if {
	input.coherenceStatus == "coherent"
	every alternatives in needs[input.requestedAction] {
		some name in alternatives
		is_fresh(input.ledgerRecency[name])
	}
	lineage := {id | some id in input.intelligenceSnapshot.lineage.dependsOnLedgerIds}
	count(lineage) >= input.thresholds.minLineageCount
}

is_fresh(at) if {
	at != null
	age := time.parse_rfc3339_ns(input.evaluatedAt) - time.parse_rfc3339_ns(at)
	age >= 0
	age <= input.thresholds.maxStalenessMinutes * 60000000000
}
