//! Robots as the command line's `--json` and the server both show them.

use crealeph_contracts::PolicyOutput;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::Node;
use crealeph_contracts::scalar::ActionName;
use crealeph_decision::coherence::CoherenceVerdict;
use crealeph_decision::policy::NextStep;
use crealeph_decision::snapshot::SnapshotType;
use crealeph_ledger::StoredEntry;
use serde::{Deserialize, Serialize};

use crate::robot::{RobotSummary, Status};

/// How the policy treats an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
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

/// A robot in a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RobotRow {
    /// The robot.
    pub robot_id: String,
    /// Whether what is known is coherent; absent if nothing counts.
    pub coherence: Option<String>,
    /// Of the newest evidence the oldest.
    pub oldest_evidence: Option<OldestEvidence>,
    /// The execution whose event came last.
    pub last_execution: Option<LastExecution>,
    /// How many of its newest drafts await approval.
    pub drafts_waiting: u64,
    /// Older drafts were not looked at.
    pub more_drafts_may_wait: bool,
}

/// Evidence by its type, and when it was true.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct OldestEvidence {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was true.
    pub at: String,
}

/// An execution by its newest event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastExecution {
    /// The execution.
    pub execution_id: Option<String>,
    /// Its state.
    pub state: String,
    /// When the event was recorded.
    pub at: String,
}

impl RobotRow {
    /// The row of a robot.
    pub fn of(robot: &RobotSummary) -> Self {
        RobotRow {
            robot_id: robot.robot_id.to_string(),
            coherence: robot.coherence.map(|coherence| coherence.as_str().to_owned()),
            oldest_evidence: robot
                .oldest_evidence
                .map(|(kind, at)| OldestEvidence { kind: kind.as_str().to_owned(), at: at.to_string() }),
            last_execution: robot.last_event.as_ref().map(|event| LastExecution {
                execution_id: execution_of(event),
                state: event.content.state.to_string(),
                at: event.created_at.to_string(),
            }),
            drafts_waiting: robot.drafts.count,
            more_drafts_may_wait: robot.drafts.is_cut,
        }
    }
}

/// A page of robots, by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RobotPage {
    /// The robots.
    pub robots: Vec<RobotRow>,
    /// The last of them, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl RobotPage {
    /// The page of these robots.
    pub fn of(robots: &[RobotSummary], has_more: bool) -> Self {
        let next = robots.last().filter(|_| has_more).map(|last| last.robot_id.to_string());
        RobotPage { robots: robots.iter().map(RobotRow::of).collect(), next }
    }
}

/// The state of a robot, as it is shown.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RobotStatusReport {
    /// The tenant.
    pub tenant_id: String,
    /// The robot.
    pub robot_id: String,
    /// When that was judged.
    pub at: String,
    /// Whether what is known is coherent; absent if nothing counts.
    pub coherence: Option<CoherenceOutline>,
    /// The newest evidence of each type.
    pub known: Vec<KnownEvidence>,
    /// The entry that came last of each type.
    pub latest: Vec<LatestEntry>,
    /// There are more types than those.
    pub has_more_types: bool,
    /// How many drafts await approval.
    pub drafts_waiting: u64,
    /// What the policy says of each action.
    pub actions: Vec<ActionReport>,
    /// What must be made before the Builder may run, in order.
    pub steps: Vec<StepReport>,
}

/// Whether what is known is coherent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CoherenceOutline {
    /// The verdict.
    pub status: String,
    /// The types that newer evidence has overtaken.
    pub outdated: Vec<String>,
    /// The types that are missing or are based on part of the evidence.
    pub partial: Vec<String>,
    /// Why.
    pub reason: String,
}

/// The newest evidence of a type.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownEvidence {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its entry.
    pub id: String,
    /// When it was true.
    pub at: String,
    /// How long ago that was.
    pub age_minutes: f64,
}

/// The entry that came last of a type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LatestEntry {
    /// The module that made it.
    pub module: String,
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its state.
    pub state: String,
    /// Its id.
    pub id: String,
    /// When it was recorded.
    pub at: String,
    /// The error or reason of an event.
    pub why: Option<String>,
}

/// What the policy says of an action.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ActionReport {
    /// The action.
    pub action: String,
    /// How the policy treats it.
    pub is: ActionStanding,
    /// Why.
    pub reasons: Vec<ReasonReport>,
}

/// A reason of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonReport {
    /// The rule.
    pub rule_id: String,
    /// What it says.
    pub message: String,
}

/// Something that must be made before the Builder may run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// The type.
    pub make: String,
    /// The actions that make it; none if it comes from outside.
    pub by_any_of: Vec<String>,
    /// Why it is needed.
    pub because: String,
}

impl RobotStatusReport {
    /// The report of a status.
    pub fn of(status: &Status) -> Self {
        let snapshot = status.snapshot.as_ref();
        let newest = SnapshotType::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, snapshot?.facts.newest.get(kind).as_ref()?)));
        RobotStatusReport {
            tenant_id: status.tenant_id.to_string(),
            robot_id: status.robot_id.to_string(),
            at: status.at.to_string(),
            coherence: snapshot.map(|snapshot| CoherenceOutline::of(&snapshot.coherence)),
            known: newest
                .map(|(kind, newest)| KnownEvidence {
                    kind: kind.as_str().to_owned(),
                    id: newest.entry.id.to_string(),
                    at: newest.entry.true_at().as_str().to_owned(),
                    age_minutes: age_minutes(status.at, newest.entry.true_at().instant()),
                })
                .collect(),
            latest: status.latest.iter().map(LatestEntry::of).collect(),
            has_more_types: status.has_more_types,
            drafts_waiting: status.drafts,
            actions: status.actions.iter().map(|(action, answer)| ActionReport::of(action, answer)).collect(),
            steps: status.steps.iter().map(StepReport::of).collect(),
        }
    }
}

impl CoherenceOutline {
    fn of(verdict: &CoherenceVerdict) -> Self {
        let names =
            |types: Vec<SnapshotType>| types.into_iter().map(|kind| kind.as_str().to_owned()).collect();
        CoherenceOutline {
            status: verdict.status.as_str().to_owned(),
            outdated: names(verdict.outdated()),
            partial: names(verdict.partial()),
            reason: verdict.reason.clone(),
        }
    }
}

impl LatestEntry {
    fn of(entry: &StoredEntry) -> Self {
        let content = &entry.content;
        LatestEntry {
            module: content.module.to_string(),
            kind: content.kind.to_string(),
            state: content.state.to_string(),
            id: entry.id.to_string(),
            at: entry.created_at.to_string(),
            why: event_reason(entry),
        }
    }
}

impl ActionReport {
    fn of(action: &ActionName, answer: &PolicyOutput) -> Self {
        let reasons = answer.reasons.as_slice().iter().map(|reason| ReasonReport {
            rule_id: reason.rule_id.to_string(),
            message: reason.message.as_str().to_owned(),
        });
        let is = ActionStanding::of(action, answer);
        ActionReport { action: action.to_string(), is, reasons: reasons.collect() }
    }
}

impl StepReport {
    fn of(step: &NextStep) -> Self {
        StepReport {
            make: step.kind.as_str().to_owned(),
            by_any_of: step.by.iter().map(ToString::to_string).collect(),
            because: step.because.clone(),
        }
    }
}
