//! The orchestrator of builder-v1 (R12): request, snapshot, policy, gate, agent, validation, one transaction, answer.
