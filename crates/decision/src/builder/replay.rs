//! Whether a recorded decision follows from what its record names: the snapshot at the recorded place, the rules and
//! the instant. Offline and pure: the caller brings the facts, from a ledger or from an export.

use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::execution_record::RecordedArtifact;
use crealeph_contracts::json::{ComposeError, JsonObject, canonical, canonical_of};
use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::shape::Shape;

use super::conclude::response;
use super::decide::{DecideError, Decided, Ready, Situation, decide};
use super::lookup::Asked;
use super::objective::Widened;
use super::record::{Record, Sections};
use crate::gate::{Gate, GateOutcome};
use crate::policy::Rules;
use crate::snapshot::Snapshot;

/// One fact that was derived again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub what: &'static str,
    /// What the record says.
    pub recorded: String,
    /// The derived value.
    pub derived: String,
}

impl Check {
    /// The record and the derived value agree.
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

/// The same under other rules: what the result would have been.
pub fn replay_under(
    tenant_id: &TenantId,
    record: &Record,
    snapshot: Option<Snapshot>,
    rules: &Rules,
) -> Result<Vec<Check>, DecideError> {
    let mut checks = Checks(Vec::with_capacity(24));
    let Some(execution_id) = record.request.execution_id.clone() else {
        checks.add("request", "an execution".to_owned(), "none".to_owned());
        return Ok(checks.0);
    };
    checks.add("execution", record.execution_id.to_string(), execution_id.to_string());
    checks.add("attempt", record.attempt.to_string(), record.request.attempt.get().to_string());
    let asked = Asked::new(tenant_id.clone(), record.request.clone(), execution_id, record.rerun_of.clone());
    checks.add("request fingerprint", record.fingerprint.to_string(), asked.fingerprint()?.to_string());
    // Types that configuration added are not in the log; the record names them, and the comparison uses those.
    let mut widened = Widened::default();
    widened.add(record.request.objective_type, record.artifact_types.iter().copied());
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
            checks.add("decision", record.policy.decision.to_string(), refused.detail.clone());
            return Ok(checks.0);
        }
    };
    checks.add("decision", record.policy.decision.to_string(), ready.policy.decision.to_string());
    let runs = |runs: bool| if runs { "the agent runs" } else { "the agent does not run" }.to_owned();
    checks.add("gate", runs(record.agent_ran), runs(matches!(ready.gate, Gate::Run { .. })));
    let derived = Sections::of(&ready)?;
    checks.section(&record.sections.snapshot, &derived.snapshot, SNAPSHOT)?;
    checks.section(&record.sections.policy, &derived.policy, POLICY)?;
    checks.section(&record.sections.gate, &derived.gate, GATE)?;
    checks.answer(record, &ready)?;
    Ok(checks.0)
}

/// The members of a record's sections, and their names in a check.
const SNAPSHOT: &[(&str, &str)] = &[
    ("seq", "place in the log"),
    ("digest", "snapshot"),
    ("snapshotAt", "snapshot time"),
    ("coherenceStatus", "coherence"),
    ("lineageCount", "lineage count"),
    ("isLineageCut", "lineage cut"),
    ("omittedPayloads", "omitted payloads"),
];
const POLICY: &[(&str, &str)] = &[
    ("evaluatedAt", "evaluation time"),
    ("inputDigest", "policy input"),
    ("thresholds", "thresholds"),
    ("rules", "rules"),
    ("rulesDigest", "rules digest"),
    ("coherenceRules", "coherence rules"),
    ("output", "policy output"),
];
const GATE: &[(&str, &str)] =
    &[("runMode", "run mode"), ("outcome", "gate outcome"), ("allowedArtifactTypes", "artifact types")];

struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, what: &'static str, recorded: String, derived: String) {
        self.0.push(Check { what, recorded, derived });
    }

    /// Compares the members of a section by name, and the section as a whole for members without a name here.
    fn section<T: Shape>(
        &mut self,
        recorded: &T,
        derived: &T,
        members: &'static [(&'static str, &'static str)],
    ) -> Result<(), ComposeError> {
        let [recorded, derived] = [recorded, derived].map(|section| JsonObject::of("the record", section));
        let (recorded, derived) = (recorded?, derived?);
        let text = |object: &JsonObject, key: &str| {
            object.with(|root| root.member(key).map_or_else(|| "nothing".to_owned(), canonical))
        };
        let from = self.0.len();
        for (key, what) in members {
            self.add(what, text(&recorded, key), text(&derived, key));
        }
        let is_same = self.0.iter().skip(from).all(Check::is_same);
        let (recorded, derived) = (recorded.canonical(), derived.canonical());
        if is_same && recorded != derived {
            self.add("other members", recorded, derived);
        }
        Ok(())
    }

    /// The state and the answer: by the gate, or of an agent that ran and gave no valid answer.
    fn answer(&mut self, record: &Record, ready: &Ready) -> Result<(), DecideError> {
        let (Gate::Run { outcome, .. } | Gate::Refuse { outcome }) = ready.gate;
        let runs = matches!(ready.gate, Gate::Run { .. });
        let is_bad_answer = runs && record.answer.state == ExecutionState::Failed;
        let outcome = if is_bad_answer { GateOutcome::BAD_ANSWER } else { outcome };
        self.add("state", record.answer.state.to_string(), outcome.state().to_string());
        let made = record.artifacts.iter().filter(|_| runs && !is_bad_answer);
        let made: Vec<RecordedArtifact> = made.cloned().collect();
        let derived = response(ready, outcome, &made);
        self.add(
            "answer",
            canonical_of("the answer", &*record.answer)?,
            canonical_of("the answer", &derived)?,
        );
        Ok(())
    }
}
