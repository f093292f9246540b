//! Whether a recorded decision follows from what its record names: the snapshot at the recorded place, the rules and
//! the instant. Offline and pure: the caller brings the facts, from a ledger or from an export.

use crealeph_contracts::contract::to_json;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::TenantId;

use super::decide::{DecideError, Decided, Situation, decide};
use super::lookup::Asked;
use super::objective::Widened;
use super::record::Record;
use crate::gate::{Gate, Outcome};
use crate::policy::Rules;
use crate::snapshot::Snapshot;

/// One thing that was derived again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub what: &'static str,
    /// What the record says.
    pub recorded: String,
    /// What came out.
    pub derived: String,
}

impl Check {
    /// The record says what came out.
    pub fn is_same(&self) -> bool {
        self.recorded == self.derived
    }
}

/// Derives the decision again and compares it with the record, under its own rules.
pub fn replay(
    tenant_id: &TenantId,
    record: &Record,
    snapshot: Option<Snapshot>,
) -> Result<Vec<Check>, DecideError> {
    replay_under(tenant_id, record, snapshot, &record.rules)
}

/// The same under other rules: what would have come of it.
pub fn replay_under(
    tenant_id: &TenantId,
    record: &Record,
    snapshot: Option<Snapshot>,
    rules: &Rules,
) -> Result<Vec<Check>, DecideError> {
    let mut checks = Vec::with_capacity(7);
    let mut add = |what, recorded: String, derived: String| checks.push(Check { what, recorded, derived });
    let Some(execution_id) = record.request.execution_id.clone() else {
        add("request", "an execution".to_owned(), "none".to_owned());
        return Ok(checks);
    };
    let asked = Asked::new(tenant_id.clone(), record.request.clone(), execution_id, record.rerun_of.clone());
    add("request fingerprint", record.fingerprint.to_string(), asked.fingerprint().to_string());
    let widened = Widened::default();
    let decided = decide(Situation {
        asked: &asked,
        is_retry: record.is_retry,
        snapshot,
        seq: record.seq,
        rules,
        coherence: &record.coherence,
        widened: &widened,
        configuration: record.configuration,
        now: record.evaluated_at,
    })?;
    let ready = match decided {
        Decided::Ready(ready) => ready,
        Decided::Refused(refused) => {
            add("decision", record.policy.decision.to_string(), refused.detail.clone());
            return Ok(checks);
        }
    };
    add("snapshot", record.snapshot_digest.to_string(), ready.snapshot_digest.to_string());
    add("policy input", record.policy_input_digest.to_string(), ready.policy_input_digest.to_string());
    add("decision", record.policy.decision.to_string(), ready.policy.decision.to_string());
    let canonical = |text: String| JsonObject::parse(&text).map(|object| object.canonical()).unwrap_or(text);
    add("policy output", canonical(record.policy.to_json()), canonical(to_json(&ready.policy)));
    let runs = |runs: bool| if runs { "the agent runs" } else { "the agent does not run" }.to_owned();
    add("gate", runs(record.agent_ran), runs(matches!(ready.gate, Gate::Run { .. })));
    let (Gate::Run { outcome, .. } | Gate::Refuse { outcome }) = ready.gate;
    let recorded = record.answer.state;
    let is_bad_answer = matches!(ready.gate, Gate::Run { .. }) && recorded == ExecutionState::Failed;
    let derived = if is_bad_answer { Outcome::BAD_ANSWER.state() } else { outcome.state() };
    add("state", recorded.to_string(), derived.to_string());
    Ok(checks)
}
