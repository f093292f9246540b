// An agent to copy: reads one AgentInput on standard input, writes one AgentOutput on standard output.
// It needs nothing but node. Whatever is meant for people goes to standard error.

import { readFileSync } from "node:fs";

/** The payload of one artifact: put your own work, or a model's, here. */
function plan(kind, given) {
  return {
    title: `${kind} for ${given.objective.type}`,
    considered: Object.keys(given.intelligenceSnapshot).sort().slice(0, 10),
    steps: ["look at the newest signals", "compare them with the plan", "write down what changes"],
  };
}

function answer(given) {
  const { executionId } = given;
  if (given.runMode === "execute" && given.coherenceStatus === "stale") {
    const error = { code: "STALE_SNAPSHOT", message: "a stale snapshot is not executed", retryable: false };
    return { ok: false, executionId, status: "blocked", error };
  }
  // Only types and ids that the input allows: anything else refuses the whole answer.
  const dependsOnLedgerIds = given.allowedLineage.dependsOnLedgerIds.slice(0, 10);
  const artifacts = given.allowedArtifactTypes.map((type) => ({
    type,
    payload: plan(type, given),
    dependsOnLedgerIds,
    metadata: { generatedAt: given.snapshotAt },
  }));
  return { ok: true, executionId, status: "succeeded", artifacts };
}

const given = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(`${JSON.stringify(answer(given))}\n`);
