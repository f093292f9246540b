#!/usr/bin/env python3
"""An agent to copy: reads one AgentInput on standard input, writes one AgentOutput on standard output.

It needs nothing but Python 3. Whatever is meant for people goes to standard error.
"""

import json
import sys


def plan(kind, given):
    """The payload of one artifact: put your own work, or a model's, here."""
    return {
        "title": f"{kind} for {given['objective']['type']}",
        "considered": sorted(given["intelligenceSnapshot"])[:10],
        "steps": ["look at the newest signals", "compare them with the plan", "write down what changes"],
    }


def answer(given):
    output = {"ok": False, "executionId": given["executionId"], "status": "blocked"}
    if given["runMode"] == "execute" and given["coherenceStatus"] == "stale":
        output["error"] = {"code": "STALE_SNAPSHOT", "message": "a stale snapshot is not executed", "retryable": False}
        return output
    # Only types and ids that the input allows: anything else refuses the whole answer.
    lineage = given["allowedLineage"]["dependsOnLedgerIds"][:10]
    output["ok"], output["status"] = True, "succeeded"
    output["artifacts"] = [
        {
            "type": kind,
            "payload": plan(kind, given),
            "dependsOnLedgerIds": lineage,
            "metadata": {"generatedAt": given["snapshotAt"]},
        }
        for kind in given["allowedArtifactTypes"]
    ]
    return output


if __name__ == "__main__":
    # Bytes, not text: the contract is UTF-8 whatever the locale says.
    given = json.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(json.dumps(answer(given)).encode() + b"\n")
