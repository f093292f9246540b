//! What is shown of robots, the same by the command line's `--json` and by the server.

use crealeph_contracts::PolicyOutput;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::Node;
use crealeph_contracts::scalar::ActionName;
use crealeph_decision::snapshot::SnapshotType;
use crealeph_ledger::StoredEntry;
use serde_json::{Value, json};

use crate::robot::{RobotSummary, Status};

/// How the policy stands to an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionStanding {
    /// It may not run.
    Blocked,
    /// It waits for something.
    Deferred,
    /// It may run.
    Allowed,
}

impl ActionStanding {
    /// Which of the policy's lists has an action; a stale robot is blocked, but may refresh what is outdated.
    pub fn of(action: &ActionName, answer: &PolicyOutput) -> Self {
        match () {
            () if answer.allowed_actions.as_slice().contains(action) => ActionStanding::Allowed,
            () if answer.blocked_actions.as_slice().contains(action) => ActionStanding::Blocked,
            () => ActionStanding::Deferred,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ActionStanding::Blocked => "blocked",
            ActionStanding::Deferred => "deferred",
            ActionStanding::Allowed => "allowed",
        }
    }
}

/// How many minutes ago something was, to a tenth.
pub fn age_minutes(now: Instant, at: Instant) -> f64 {
    (now.nanos_since(at) as f64 / 60e9 * 10.0).round() / 10.0
}

/// The execution that an event is of.
pub fn execution_of(event: &StoredEntry) -> Option<String> {
    let payload = event.to_entry().payload?;
    payload.with(|payload| Some(Node::string(payload.member("executionId")?)?.into_owned()))
}

/// The error or reason of an execution's event.
pub fn event_reason(event: &StoredEntry) -> Option<String> {
    let payload = event.content.is_event().then(|| event.to_entry().payload)??;
    payload.with(|payload| {
        let code = payload.member("error").and_then(|error| error.member("code"));
        let why = code.or_else(|| payload.member("cancelReason"))?;
        Some(Node::string(why)?.into_owned())
    })
}

/// A robot in a list, as JSON.
pub fn summary_json(robot: &RobotSummary) -> Value {
    let coherence = robot.coherence.map(|coherence| coherence.as_str());
    let evidence =
        robot.oldest_evidence.map(|(kind, at)| json!({ "type": kind.as_str(), "at": at.to_string() }));
    let last = robot.last_event.as_ref().map(|event| {
        let (state, at) = (event.content.state.as_str(), event.created_at.to_string());
        json!({ "executionId": execution_of(event), "state": state, "at": at })
    });
    json!({
        "robotId": robot.robot_id.as_str(), "coherence": coherence, "oldestEvidence": evidence,
        "lastExecution": last, "draftsWaiting": robot.drafts.count, "moreDraftsMayWait": robot.drafts.is_cut,
    })
}

/// The status of a robot as JSON.
pub fn status_json(status: &Status) -> Value {
    let known: Vec<Value> = SnapshotType::ALL
        .into_iter()
        .filter_map(|kind| {
            let newest = status.snapshot.as_ref()?.facts.newest.get(kind).as_ref()?;
            let at = newest.entry.true_at();
            let age = age_minutes(status.at, at.instant());
            Some(json!({ "type": kind.as_str(), "id": newest.entry.id.as_str(), "at": at.as_str(), "ageMinutes": age }))
        })
        .collect();
    let coherence = status.snapshot.as_ref().map(|snapshot| {
        let names =
            |types: Vec<SnapshotType>| types.into_iter().map(SnapshotType::as_str).collect::<Vec<_>>();
        let verdict = &snapshot.coherence;
        json!({
            "status": verdict.status.as_str(),
            "outdated": names(verdict.outdated()),
            "partial": names(verdict.partial()),
            "reason": verdict.reason,
        })
    });
    let latest: Vec<Value> = status
        .latest
        .iter()
        .map(|entry| {
            let content = &entry.content;
            json!({
                "module": content.module.as_str(), "type": content.kind.as_str(), "state": content.state.as_str(),
                "id": entry.id.as_str(), "at": entry.created_at.to_string(), "why": event_reason(entry),
            })
        })
        .collect();
    let actions: Vec<Value> = status
        .actions
        .iter()
        .map(|(action, answer)| {
            let reasons = answer.reasons.as_slice().iter();
            let reasons: Vec<Value> = reasons
                .map(
                    |reason| json!({ "ruleId": reason.rule_id.as_str(), "message": reason.message.as_str() }),
                )
                .collect();
            json!({ "action": action.as_str(), "is": ActionStanding::of(action, answer).as_str(), "reasons": reasons })
        })
        .collect();
    let steps: Vec<Value> = status
        .steps
        .iter()
        .map(|step| {
            let by: Vec<&str> = step.by.iter().map(|action| action.as_str()).collect();
            json!({ "make": step.kind.as_str(), "byAnyOf": by, "because": step.because })
        })
        .collect();
    json!({
        "tenantId": status.tenant_id.as_str(), "robotId": status.robot_id.as_str(), "at": status.at.to_string(), "coherence": coherence, "known": known, "latest": latest, "hasMoreTypes": status.has_more_types,
        "draftsWaiting": status.drafts, "actions": actions, "steps": steps,
    })
}
