//! From a decided run and the agent's outcome to the entries to write, in one transaction, and the answer (R13,
//! R14). An answer that cannot be written is refused as a whole (R16): then only the failed event and its record remain.

use crealeph_contracts::BuilderResponse;
use crealeph_contracts::agent_input::{Coherence, ContractVersion};
use crealeph_contracts::agent_output::{AgentAnswer, AgentArtifact, AgentStatus};
use crealeph_contracts::builder::{ArtifactRef, ErrorCode};
use crealeph_contracts::contract::to_json;
use crealeph_contracts::entry::{Draft, Lineage};
use crealeph_contracts::execution_event::{EventError, EventPayload, ExecutionState};
use crealeph_contracts::execution_record::RecordedArtifact;
use crealeph_contracts::json::{ComposeError, JsonObject};
use crealeph_contracts::scalar::{Amount, IdentifierError, LedgerId, Literal, Name, Text};
use crealeph_contracts::shape::{List, Set};

use super::decide::{Ready, report};
use super::review::DRAFT;
use super::{objective, record};
use crate::gate::{ArtifactState, Gate, GateOutcome, POLICY_DEFERRED};

/// The module of artifacts and records (R14).
pub const BUILDER: Literal = Literal::new("builder");
const AGENT_BUILDER: Literal = Literal::new("agent-builder");
const EXECUTION_EVENT: Literal = Literal::new("execution_event");
/// How long a reason in an event may be.
const MAX_REASON_BYTES: usize = 16 << 10;
/// Entries of a run that are not artifacts: two events and the record.
const OTHER_ENTRIES: usize = 3;

/// The limits of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Entries.
    pub entries: usize,
    /// Bytes of one payload.
    pub payload_bytes: usize,
    /// Bytes of all payloads.
    pub total_bytes: usize,
}

/// The agent's outcome, if it ran.
#[derive(Clone, Debug, Default)]
pub struct Ended<'a> {
    /// The result of calling it.
    pub ran: Option<AgentCall<'a>>,
    /// How long the attempt took.
    pub duration_ms: Option<Amount>,
}

/// The result of calling an agent.
#[derive(Clone, Debug)]
pub struct AgentCall<'a> {
    /// Its answer, or why there is none.
    pub answer: Result<&'a AgentAnswer, &'a str>,
    /// Which agent it was, and how it was isolated.
    pub identity: &'a JsonObject,
    /// What it wrote besides its answer.
    pub diagnostics: &'a str,
    /// How many tokens it used, if it said so.
    pub tokens_used: Option<f64>,
}

impl Ended<'_> {
    /// The most artifacts that need an id.
    pub fn artifact_count(&self) -> usize {
        let output = self.ran.as_ref().and_then(|ran| ran.answer.ok());
        output.and_then(|output| output.artifacts.as_ref()).map_or(0, |artifacts| artifacts.as_slice().len())
    }
}

/// The entries to write, and the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The artifacts, under the ids that were given for them, in their order.
    pub artifacts: Vec<(LedgerId, Draft)>,
    /// The events and the record, after the artifacts.
    pub rest: Vec<Draft>,
    /// The answer.
    pub response: BuilderResponse,
    /// Why it ended so, for a person.
    pub reason: String,
}

/// Why no conclusion could be drawn: an internal error, not one of the request or the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConcludeError {
    /// Fewer ids than artifacts.
    #[error("internal error: {given} ids were given for {wanted} artifacts; please report it")]
    TooFewIds {
        /// How many were given.
        given: usize,
        /// How many are wanted.
        wanted: usize,
    },
    /// An invalid name.
    #[error("internal error: an entry of the run has an invalid name; please report it")]
    Name(#[from] IdentifierError),
    /// A document that was composed here cannot be read back.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A document that was composed here breaks its contract.
    #[error("internal error: {0} of the run cannot be written; please report it")]
    Document(&'static str),
}

/// Draws the conclusion. `ids` are fresh ids, at least as many as [`Ended::artifact_count`].
pub fn conclude(
    ready: &Ready,
    ended: &Ended<'_>,
    ids: &[LedgerId],
    room: &TransactionLimits,
) -> Result<Conclusion, ConcludeError> {
    let (outcome, artifacts, state, reason) = judge(ready, ended, room);
    if ids.len() < artifacts.len() {
        return Err(ConcludeError::TooFewIds { given: ids.len(), wanted: artifacts.len() });
    }
    let reason = record::cut(&reason, MAX_REASON_BYTES);
    let made: Vec<RecordedArtifact> = artifacts
        .iter()
        .zip(ids)
        .map(|(artifact, id)| RecordedArtifact {
            id: id.clone(),
            kind: artifact.kind,
            metadata: artifact.metadata.clone(),
        })
        .collect();
    let drafts: Result<Vec<Draft>, ConcludeError> =
        artifacts.iter().map(|artifact| artifact_draft(ready, artifact, state)).collect();
    let lineage = event_lineage(ready, artifacts);
    let response = response(ready, outcome, &made);
    let mut rest = Vec::with_capacity(OTHER_ENTRIES);
    if ready.is_retry && outcome != GateOutcome::Planned {
        rest.push(event_draft(ready, ExecutionState::Running, base_payload(ready), &lineage)?);
    }
    let payload = outcome_payload(ready, outcome, ended.duration_ms, &made, reason)?;
    rest.push(event_draft(ready, outcome.state(), payload, &lineage)?);
    rest.push(record_draft(ready, ended, &made, outcome, &lineage, reason, &response)?);
    let artifacts = made.into_iter().map(|made| made.id).zip(drafts?).collect();
    Ok(Conclusion { artifacts, rest, response, reason: reason.to_owned() })
}

/// How the attempt ends, which artifacts it leaves in which state, and why.
fn judge<'a>(
    ready: &Ready,
    ended: &Ended<'a>,
    room: &TransactionLimits,
) -> (GateOutcome, &'a [AgentArtifact], ArtifactState, String) {
    match ready.gate {
        Gate::Refuse { outcome } => (outcome, &[], ArtifactState::Draft, refusal_reason(ready)),
        Gate::Run { outcome, artifacts: state, .. } => match artifacts(ended, room) {
            Ok(artifacts) => (outcome, artifacts, state, policy_sentence(ready)),
            Err(reason) => (GateOutcome::BAD_ANSWER, &[], state, reason),
        },
    }
}

/// The artifacts of an answer that succeeded and that fit into one transaction; else why there are none.
fn artifacts<'a>(ended: &Ended<'a>, room: &TransactionLimits) -> Result<&'a [AgentArtifact], String> {
    let Some(ran) = &ended.ran else { return Err("the agent was not called".to_owned()) };
    let output = ran.answer.map_err(|why| match why.trim().is_empty() {
        true => "the agent gave no answer".to_owned(),
        false => why.to_owned(),
    })?;
    if output.status != AgentStatus::Succeeded {
        return Err(match &output.error {
            Some(error) => {
                format!(
                    "the agent answered `{}`: {}: {}",
                    output.status,
                    error.code.as_str(),
                    error.message.as_str()
                )
            }
            None => format!("the agent answered `{}` and did not say why", output.status),
        });
    }
    let artifacts = output.artifacts.as_ref().map(List::as_slice).unwrap_or_default();
    fits(artifacts, room)?;
    Ok(artifacts)
}

/// Refuses artifacts that do not fit into one transaction.
fn fits(artifacts: &[AgentArtifact], room: &TransactionLimits) -> Result<(), String> {
    let most = room.entries.saturating_sub(OTHER_ENTRIES);
    if artifacts.len() > most {
        return Err(format!(
            "the agent made {} artifacts, and at most {most} can be written",
            artifacts.len()
        ));
    }
    // The rest of the transaction's room is for the events and the record, which keeps the metadata.
    let (each, all, most_metadata) = (room.payload_bytes, room.total_bytes / 2, room.payload_bytes / 4);
    let (mut total, mut metadata) = (0usize, 0usize);
    for (position, artifact) in artifacts.iter().enumerate() {
        let bytes = artifact.payload.canonical().len();
        total = total.saturating_add(bytes);
        metadata = metadata.saturating_add(to_json(&artifact.metadata).len());
        if metadata > most_metadata {
            return Err(format!(
                "the artifacts' metadata has more than the {most_metadata} bytes that can be written"
            ));
        }
        if bytes > each {
            return Err(format!("artifact {position} has {bytes} bytes, and at most {each} can be written"));
        }
    }
    match total > all {
        true => Err(format!("the artifacts have {total} bytes, and at most {all} can be written")),
        false => Ok(()),
    }
}

fn policy_sentence(ready: &Ready) -> String {
    let reasons = ready.policy.reasons.as_slice().iter();
    reasons.map(|reason| reason.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// Why the gate refused: what the snapshot lacks, or the policy's reasons.
fn refusal_reason(ready: &Ready) -> String {
    match ready.coherence.status {
        Coherence::Coherent => policy_sentence(ready),
        Coherence::Partial | Coherence::Stale => ready.coherence.reason.clone(),
    }
}

/// The union of the artifacts' lineages, or without artifacts the allowed lineage (R14).
fn event_lineage(ready: &Ready, artifacts: &[AgentArtifact]) -> Set<LedgerId> {
    let union: Vec<LedgerId> =
        artifacts.iter().flat_map(|artifact| artifact.depends_on.as_slice()).cloned().collect();
    let ids = if union.is_empty() { ready.lineage.as_slice().to_vec() } else { union };
    ids.into_iter().collect()
}

fn artifact_draft(
    ready: &Ready,
    artifact: &AgentArtifact,
    state: ArtifactState,
) -> Result<Draft, ConcludeError> {
    const PLANNED: Literal = Literal::new("planned");
    Ok(Draft {
        robot_id: ready.asked.request.robot_id.clone(),
        module: Name::from(BUILDER),
        source: Name::from(BUILDER),
        kind: Name::parse(artifact.kind.as_str())?,
        state: Name::from(if state == ArtifactState::Draft { DRAFT } else { PLANNED }),
        payload: artifact.payload.clone(),
        lineage: Some(Lineage {
            depends_on: Set::new(artifact.depends_on.as_slice().to_vec()),
            execution_id: Some(ready.asked.execution_id.clone()),
            rerun_of: None,
        }),
        observed_at: None,
        key: None,
    })
}

/// What every event of the attempt says.
fn base_payload(ready: &Ready) -> EventPayload {
    let request = &ready.asked.request;
    EventPayload {
        execution_id: ready.asked.execution_id.clone(),
        workflow_version: request.workflow_version.clone(),
        agent_version: request.agent_version.clone(),
        execution_contract_version: ContractVersion::V1,
        attempt: request.attempt,
        target: Name::from(objective::target(request.objective_type)),
        action: Name::from(objective::action(request.objective_type)),
        snapshot_at: ready.snapshot_at.clone(),
        coherence_status: ready.coherence.status,
        dry_run: request.dry_run,
        result: None,
        error: None,
        cancel_reason: None,
        external_refs: None,
        duration_ms: None,
    }
}

fn outcome_payload(
    ready: &Ready,
    outcome: GateOutcome,
    duration_ms: Option<Amount>,
    made: &[RecordedArtifact],
    reason: &str,
) -> Result<EventPayload, ConcludeError> {
    let mut payload = EventPayload { duration_ms, ..base_payload(ready) };
    match outcome {
        GateOutcome::Planned => {}
        GateOutcome::Succeeded => {
            payload.result = Some(JsonObject::build(|result| {
                result.integer("artifactCount", made.len() as u64);
                result.texts("artifactIds", made.iter().map(|made| made.id.as_str()));
            }));
        }
        GateOutcome::Failed { code, retryable } => {
            payload.error = Some(EventError {
                code: Text::new(code.as_str()).ok_or(ConcludeError::Document("the error"))?,
                message: Text::new(reason).ok_or(ConcludeError::Document("the error"))?,
                retryable,
            });
        }
        GateOutcome::Cancelled { reason } => payload.cancel_reason = Text::new(reason),
    }
    Ok(payload)
}

fn event_draft(
    ready: &Ready,
    state: ExecutionState,
    payload: EventPayload,
    lineage: &Set<LedgerId>,
) -> Result<Draft, ConcludeError> {
    Ok(Draft {
        robot_id: ready.asked.request.robot_id.clone(),
        module: Name::from(AGENT_BUILDER),
        source: Name::from(AGENT_BUILDER),
        kind: Name::from(EXECUTION_EVENT),
        state: Name::parse(state.as_str())?,
        payload: JsonObject::of("the event", &payload)?,
        lineage: Some(Lineage {
            depends_on: Some(lineage.clone()),
            execution_id: None,
            rerun_of: ready.asked.rerun_of.clone(),
        }),
        observed_at: None,
        key: None,
    })
}

fn record_draft(
    ready: &Ready,
    ended: &Ended<'_>,
    made: &[RecordedArtifact],
    outcome: GateOutcome,
    lineage: &Set<LedgerId>,
    reason: &str,
    response: &BuilderResponse,
) -> Result<Draft, ConcludeError> {
    let record = record::record(ready, ended, made, reason, response)?;
    let payload = JsonObject::of("the record", &record)?;
    // A repeat is answered from the record, so one that cannot be read back must not be written (R3, R11).
    record::Record::read(payload.as_str()).ok_or(ConcludeError::Document("the record"))?;
    Ok(Draft {
        robot_id: ready.asked.request.robot_id.clone(),
        module: Name::from(BUILDER),
        source: Name::from(BUILDER),
        kind: Name::from(record::EXECUTION_RECORD),
        state: Name::parse(outcome.state().as_str())?,
        payload,
        lineage: Some(Lineage {
            depends_on: Some(lineage.clone()),
            execution_id: Some(ready.asked.execution_id.clone()),
            rerun_of: ready.asked.rerun_of.clone(),
        }),
        observed_at: None,
        key: Some(ready.asked.record_key()?),
    })
}

/// The answer, exactly as R13 says.
pub(super) fn response(ready: &Ready, outcome: GateOutcome, made: &[RecordedArtifact]) -> BuilderResponse {
    let state = outcome.state();
    let is_deferred = outcome == GateOutcome::Cancelled { reason: POLICY_DEFERRED };
    let reason = if is_deferred { policy_sentence(ready) } else { ready.coherence.reason.clone() };
    let (error, blocking_reason) = match outcome {
        GateOutcome::Failed { code: ErrorCode::CoherenceBlocked, .. } => {
            (None, Some(ErrorCode::CoherenceBlocked))
        }
        GateOutcome::Failed { code, .. } => (Some(code), None),
        _ => (None, None),
    };
    BuilderResponse {
        ok: matches!(state, ExecutionState::Planned | ExecutionState::Succeeded),
        execution_id: Some(ready.asked.execution_id.clone()),
        state,
        coherence: Some(report(&ready.coherence, &reason)),
        artifacts: made.iter().map(|made| ArtifactRef { id: made.id.clone(), kind: made.kind }).collect(),
        error,
        blocking_reason,
        idempotent: false,
    }
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
