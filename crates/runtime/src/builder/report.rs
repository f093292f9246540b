//! What is shown of executions, the same by the command line's `--json` and by the server: everything that the ledger holds
//! of one, why it was decided so, and whether the decision can be derived again.

use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::policy_output::PolicyReason;
use crealeph_decision::builder::Record;
use crealeph_decision::builder::replay::Check;
use crealeph_ledger::StoredEntry;
use serde_json::{Value, json};

use super::Execution;
use crate::entries::entry_json;
use crate::remedies::remedies;

/// Everything that the ledger holds of an execution, as JSON.
pub fn execution_json(found: &Execution) -> String {
    fn list<'e>(entries: impl Iterator<Item = &'e StoredEntry>) -> String {
        format!("[{}]", entries.map(entry_json).collect::<Vec<_>>().join(","))
    }
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.raw("events", &list(found.events.iter()));
    object.raw("records", &list(found.records.iter().map(|(entry, _)| entry)));
    object.raw("others", &list(found.others.iter()));
    object.boolean("isCut", found.is_cut);
    object.end();
    out
}

/// The execution that a record is of.
pub fn execution_of_record(record: &Record) -> &str {
    record.request.execution_id.as_ref().map_or("-", |id| id.as_str())
}

/// Why an attempt was decided as it was, and what would change it, as JSON.
pub fn reasons_json(record: &Record) -> Value {
    // If the agent ran, the policy allowed it.
    let to_change = |reason: &PolicyReason| match record.agent_ran {
        true => Vec::new(),
        false => reason.evidence.with(remedies),
    };
    let reasons = record.policy.reasons.as_slice().iter().map(|reason| {
        json!({
            "ruleId": reason.rule_id.as_str(),
            "message": reason.message.as_str(),
            "toChange": to_change(reason),
        })
    });
    let reasons: Vec<Value> = reasons.collect();
    json!({
        "executionId": execution_of_record(record),
        "attempt": record.request.attempt.get(),
        "state": record.answer.state.as_str(),
        "decision": record.policy.decision.as_str(),
        "agentRan": record.agent_ran,
        "reason": record.reason,
        "rules": reasons,
    })
}

/// Whether a recorded decision follows when it is derived again, as JSON.
pub fn replay_json(record: &Record, checks: &[Check]) -> Value {
    let all: Vec<Value> = checks
        .iter()
        .map(|check| {
            json!({ "what": check.what, "recorded": check.recorded, "derived": check.derived, "same": check.is_same() })
        })
        .collect();
    json!({
        "executionId": execution_of_record(record),
        "attempt": record.request.attempt.get(),
        "follows": checks.iter().all(Check::is_same),
        "checks": all,
    })
}
