//! Executions as the command line's `--json` and the server both show them: everything that the ledger has
//! of one, why it was decided so, and whether the decision can be recomputed.

use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::policy_output::PolicyReason;
use crealeph_decision::builder::Record;
use crealeph_decision::builder::replay::Check;
use crealeph_ledger::StoredEntry;
use serde::{Deserialize, Serialize};
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

/// Whether a recorded decision follows when it is derived again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    /// The execution.
    pub execution_id: String,
    /// The attempt.
    pub attempt: u64,
    /// Whether all of it is the same.
    pub follows: bool,
    /// What was compared.
    pub checks: Vec<CheckReport>,
}

/// Something that was derived again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CheckReport {
    /// What.
    pub what: String,
    /// As it is recorded.
    pub recorded: String,
    /// As it was derived.
    pub derived: String,
    /// Whether that is the same.
    pub same: bool,
}

/// The replays of an execution's attempts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReplayList {
    /// One for each attempt.
    pub replays: Vec<ReplayReport>,
}

impl ReplayReport {
    /// The report of a record and what was compared.
    pub fn of(record: &Record, checks: &[Check]) -> Self {
        let all = checks.iter().map(|check| CheckReport {
            what: check.what.to_owned(),
            recorded: check.recorded.clone(),
            derived: check.derived.clone(),
            same: check.is_same(),
        });
        ReplayReport {
            execution_id: execution_of_record(record).to_owned(),
            attempt: record.request.attempt.get(),
            follows: checks.iter().all(Check::is_same),
            checks: all.collect(),
        }
    }
}
