//! From a request and the evidence to whether the agent runs, and with what (R12, R13, R15, R19, R21). Four answers
//! need no run and write nothing: SNAPSHOT_EMPTY, MISSING_LINEAGE, and COHERENCE_BLOCKED for a retry on a stale
//! snapshot, whose event would be illegal (R9). Everything else is [`Ready`] for the gate.

use crealeph_contracts::agent_input::{
    AllowedLineage, ArtifactType, Coherence, ContractVersion, Objective, ObjectiveAction, ObjectiveType,
    RunMode,
};
use crealeph_contracts::builder::{CoherenceReport, ErrorCode, OnPartial};
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::{ComposeError, JsonObject, canonical_of};
use crealeph_contracts::policy_input::{IntelligenceSnapshot, RequestedObjective};
use crealeph_contracts::scalar::{ActionName, LedgerId, Literal, Name, Number, TenantId, Text, Version};
use crealeph_contracts::shape::{List, Set};
use crealeph_contracts::violation::Violations;
use crealeph_contracts::{AgentInput, BuilderResponse, PolicyInput, PolicyOutput};

use super::lookup::Asked;
use super::objective::{self, Widened};
use crate::coherence::{CoherenceRules, CoherenceVerdict};
use crate::gate::{Gate, gate};
use crate::policy::{BUILDER_RUN, Rules, evaluate};
use crate::snapshot::{Omitted, Snapshot, SnapshotType};

const OUTPUT_SCHEMA: Literal = Literal::new("v1");

/// Everything that the decision about a run depends on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// The request.
    pub asked: &'a Asked,
    /// An earlier attempt of the execution failed.
    pub is_retry: bool,
    /// The snapshot; `None` if no evidence counts.
    pub snapshot: Option<Snapshot>,
    /// The place in the ledger up to which it was read.
    pub seq: u64,
    /// The rules of the policy.
    pub rules: &'a Rules,
    /// The rules of the snapshot's coherence.
    pub coherence: &'a CoherenceRules,
    /// Artifact types that configuration adds.
    pub widened: &'a Widened,
    /// The version of the configuration in force.
    pub configuration: Blake3,
    /// When freshness is judged.
    pub now: Instant,
}

/// How a run continues.
#[derive(Clone, Debug)]
pub enum Decided {
    /// It does not; nothing is written.
    Refused(Box<Refused>),
    /// As the gate says.
    Ready(Box<Ready>),
}

/// An answer that leaves no trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The answer.
    pub response: BuilderResponse,
    /// Why, and what would change it, for a person.
    pub detail: String,
}

/// A decided run; the remaining steps are calling the agent, if the gate lets it run, and writing.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The request.
    pub asked: Asked,
    /// An earlier attempt of the execution failed.
    pub is_retry: bool,
    /// The place in the ledger up to which it was read.
    pub seq: u64,
    /// The snapshot's own time.
    pub snapshot_at: Timestamp,
    /// BLAKE3 of the snapshot's canonical text.
    pub snapshot_digest: Blake3,
    /// Whether the snapshot is coherent.
    pub coherence: CoherenceVerdict,
    /// The ids that artifacts may depend on.
    pub lineage: Set<LedgerId, 1>,
    /// There were more than may be named.
    pub is_lineage_cut: bool,
    /// What the snapshot lists without payload, if anything.
    pub omitted: Option<Omitted>,
    /// The types that an agent may make.
    pub artifact_types: Set<ArtifactType, 1>,
    /// The version of the configuration in force.
    pub configuration: Blake3,
    /// When freshness was judged.
    pub evaluated_at: Timestamp,
    /// BLAKE3 of the canonical PolicyInput.
    pub policy_input_digest: Blake3,
    /// The thresholds of the question, as JSON.
    pub thresholds: String,
    /// The rules in force, as JSON.
    pub rules: String,
    /// The coherence rules in force, as JSON.
    pub coherence_rules: String,
    /// The policy's answer.
    pub policy: PolicyOutput,
    /// The gate's answer.
    pub gate: Gate,
    /// The agent's input, if it runs.
    pub input: Option<Valid<AgentInput>>,
}

/// Why nothing could be decided: an error in what was read, not in the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// A document that was composed here cannot be read back.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A document that was composed here breaks its contract.
    #[error("internal error: the input for the agent breaks its contract: {0}; please report it")]
    Invalid(Violations),
    /// An objective for which no artifact may be made.
    #[error("internal error: no type of artifact is allowed for `{objective}`; please report it")]
    NoArtifactTypes {
        /// The objective.
        objective: ObjectiveType,
    },
}

/// Decides.
pub fn decide(situation: Situation<'_>) -> Result<Decided, DecideError> {
    let Situation { asked, is_retry, seq, rules, coherence, widened, configuration, now, .. } = situation;
    let request = &asked.request;
    let (snapshot, lineage) = match usable(asked, is_retry, situation.snapshot) {
        Ok(usable) => usable,
        Err(refused) => return Ok(Decided::Refused(refused)),
    };
    let status = snapshot.coherence.status;
    let object = snapshot.document()?;
    let snapshot_digest = Blake3::of(object.canonical().as_bytes());
    let policy_input = policy_input(asked, &snapshot, object.clone(), rules, now);
    // It contains the snapshot as deep as the agent's input does, so if this can be read back, that can too.
    let policy_input_digest = Blake3::of(canonical_of("the policy input", &policy_input)?.as_bytes());
    let policy = evaluate(&policy_input, rules);
    let gate = gate(status, request.coherence_policy.on_partial, request.dry_run, policy.decision);
    let objective = request.objective_type;
    let artifact_types = Set::new(widened.artifact_types(objective).as_slice().to_vec())
        .ok_or(DecideError::NoArtifactTypes { objective })?;
    let input = match gate {
        Gate::Refuse { .. } => None,
        Gate::Run { mode, .. } => {
            Some(agent_input(asked, &snapshot, object, &lineage, &artifact_types, mode))
        }
    };
    let input = input.map(Valid::check).transpose().map_err(DecideError::Invalid)?;
    Ok(Decided::Ready(Box::new(Ready {
        asked: asked.clone(),
        is_retry,
        seq,
        snapshot_at: snapshot.snapshot_at.clone(),
        snapshot_digest,
        coherence: snapshot.coherence.clone(),
        lineage,
        is_lineage_cut: snapshot.facts.is_lineage_cut,
        omitted: snapshot.facts.omitted,
        artifact_types,
        configuration,
        evaluated_at: policy_input.evaluated_at.clone(),
        policy_input_digest,
        thresholds: to_json(&policy_input.thresholds),
        rules: rules.to_json(),
        coherence_rules: coherence.to_json(),
        policy,
        gate,
        input,
    })))
}

/// The snapshot, if a run can be decided on it, and the ids that artifacts may depend on; else the answer that needs no run.
fn usable(
    asked: &Asked,
    is_retry: bool,
    snapshot: Option<Snapshot>,
) -> Result<(Snapshot, Set<LedgerId, 1>), Box<Refused>> {
    let Some(snapshot) = snapshot else {
        let detail = format!(
            "no entry of robot `{}` counts; append a signal, fusion, idea, copy, benchmark or playbook, then send the request again",
            asked.request.robot_id
        );
        return Err(refused(asked, ErrorCode::SnapshotEmpty, None, detail));
    };
    let verdict = &snapshot.coherence;
    let about = || Some(report(verdict, &verdict.reason));
    let lineage = match lineage(&snapshot) {
        Ok(lineage) => lineage,
        Err(detail) => return Err(refused(asked, ErrorCode::MissingLineage, about(), detail)),
    };
    if is_retry && verdict.status == Coherence::Stale {
        let detail =
            format!("{}; refresh it, then send the request again: nothing was written", verdict.reason);
        return Err(refused(asked, ErrorCode::CoherenceBlocked, about(), detail));
    }
    Ok((snapshot, lineage))
}

/// What an agent is given that runs in a mode; `object` is the snapshot's document.
fn agent_input(
    asked: &Asked,
    snapshot: &Snapshot,
    object: JsonObject,
    lineage: &Set<LedgerId, 1>,
    artifact_types: &Set<ArtifactType, 1>,
    run_mode: RunMode,
) -> AgentInput {
    let request = &asked.request;
    AgentInput {
        tenant_id: asked.tenant_id.clone(),
        robot_id: request.robot_id.clone(),
        execution_id: asked.execution_id.clone(),
        attempt: request.attempt,
        workflow_version: request.workflow_version.clone(),
        agent_version: request.agent_version.clone(),
        boundary_contract_version: ContractVersion::V1,
        run_mode,
        snapshot_at: snapshot.snapshot_at.clone(),
        coherence_status: snapshot.coherence.status,
        constraints: request.constraints.clone(),
        objective: Objective {
            kind: request.objective_type,
            action: ObjectiveAction::Plan,
            payload: request.objective_payload.clone(),
        },
        intelligence_snapshot: object,
        allowed_lineage: AllowedLineage { depends_on: lineage.clone() },
        allowed_artifact_types: artifact_types.clone(),
        output_schema_version: Version::from(OUTPUT_SCHEMA),
    }
}

/// The ids that artifacts may depend on, or what is wrong with them (R12).
fn lineage(snapshot: &Snapshot) -> Result<Set<LedgerId, 1>, String> {
    for kind in SnapshotType::ALL {
        if let Some(newest) = snapshot.facts.newest.get(kind)
            && newest.reach.is_broken
        {
            return Err(format!(
                "the lineage of the newest {}, `{}`, names an entry the ledger does not hold; restore it, then send the request again",
                kind.as_str(),
                newest.entry.id
            ));
        }
    }
    Set::new(snapshot.facts.lineage.clone()).ok_or_else(|| {
        "no entry may be depended on; append one that counts, then send the request again".to_owned()
    })
}

/// The policy input: `builder.run`, with the rules' thresholds and, if the client accepts drafts, R21's.
fn policy_input(
    asked: &Asked,
    snapshot: &Snapshot,
    object: JsonObject,
    rules: &Rules,
    now: Instant,
) -> PolicyInput {
    let request = &asked.request;
    let objective = request.objective_type;
    let mut input =
        policy_question(&asked.tenant_id, snapshot, object, rules, Some(ActionName::from(BUILDER_RUN)), now);
    if request.coherence_policy.on_partial == OnPartial::DraftOnly {
        input.thresholds.further.extend(Number::new(1.0).map(|one| ("allowDraftOnly".into(), one)));
    }
    input.requested_objective = Name::parse(objective.as_str())
        .ok()
        .map(|kind| RequestedObjective { kind, action: Name::from(objective::action(objective)) });
    input
}

/// The question whether an action, if one is named, may run on a snapshot, under the rules' own thresholds; `object` is its document.
pub fn policy_question(
    tenant: &TenantId,
    snapshot: &Snapshot,
    object: JsonObject,
    rules: &Rules,
    action: Option<ActionName>,
    now: Instant,
) -> PolicyInput {
    PolicyInput {
        tenant_id: tenant.clone(),
        robot_id: snapshot.facts.robot_id.clone(),
        policy_contract_version: ContractVersion::V1,
        evaluated_at: Timestamp::from(now),
        coherence_status: snapshot.coherence.status,
        snapshot_at: snapshot.snapshot_at.clone(),
        intelligence_snapshot: IntelligenceSnapshot::new(object),
        ledger_recency: snapshot.recency(),
        requested_action: action,
        requested_objective: None,
        thresholds: rules.thresholds().clone(),
    }
}

/// What the answer says about the snapshot.
pub(super) fn report(verdict: &CoherenceVerdict, reason: &str) -> CoherenceReport {
    let outdated: Vec<Name> =
        verdict.outdated().into_iter().filter_map(|kind| Name::parse(kind.as_str()).ok()).collect();
    CoherenceReport {
        status: verdict.status,
        outdated: if outdated.is_empty() { None } else { List::new(outdated) },
        reason: Text::new(reason),
    }
}

/// An answer without a run: `failed`, nothing made.
pub fn refusal(
    execution_id: Option<crealeph_contracts::scalar::ExecutionId>,
    code: ErrorCode,
    coherence: Option<CoherenceReport>,
) -> BuilderResponse {
    let is_gate = code == ErrorCode::CoherenceBlocked;
    BuilderResponse {
        ok: false,
        execution_id,
        state: ExecutionState::Failed,
        coherence,
        artifacts: List::default(),
        error: (!is_gate).then_some(code),
        blocking_reason: is_gate.then_some(code),
        idempotent: false,
    }
}

fn refused(
    asked: &Asked,
    code: ErrorCode,
    coherence: Option<CoherenceReport>,
    detail: String,
) -> Box<Refused> {
    Box::new(Refused { response: refusal(Some(asked.execution_id.clone()), code, coherence), detail })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, Known};
    use super::*;
    use crate::gate::GateOutcome;

    fn refused(decided: Decided) -> Refused {
        match decided {
            Decided::Refused(refused) => {
                Valid::check(refused.response.clone()).unwrap();
                assert!(!refused.detail.is_empty());
                *refused
            }
            Decided::Ready(ready) => panic!("{ready:?}"),
        }
    }

    #[test]
    fn a_robot_without_evidence_is_snapshot_empty() {
        let answer = refused(samples::decided(Known::Nothing, false, |text| text));
        assert_eq!(answer.response.error, Some(ErrorCode::SnapshotEmpty));
        assert_eq!((answer.response.state, answer.response.coherence), (ExecutionState::Failed, None));
    }

    #[test]
    fn a_broken_lineage_is_missing_lineage() {
        let answer = refused(samples::decided(Known::Broken, false, |text| text));
        assert_eq!(answer.response.error, Some(ErrorCode::MissingLineage));
        assert!(answer.response.coherence.is_some() && answer.detail.contains("`copy-1`"), "{answer:?}");
    }

    #[test]
    fn a_retry_on_a_stale_snapshot_writes_nothing() {
        let answer = refused(samples::decided(Known::Stale, true, |text| text));
        assert_eq!(answer.response.blocking_reason, Some(ErrorCode::CoherenceBlocked));
        assert_eq!((answer.response.error, answer.response.state), (None, ExecutionState::Failed));
        let first = samples::ready(Known::Stale, false, |text| text);
        assert_eq!(first.gate, Gate::Refuse { outcome: GateOutcome::BLOCKED });
    }

    #[test]
    fn the_policy_is_asked_for_drafts_only_if_the_client_accepts_them() {
        let ready = samples::ready(Known::Partial, false, |text| text);
        assert!(!ready.thresholds.contains("allowDraftOnly"), "{}", ready.thresholds);
        let ready =
            samples::ready(Known::Partial, false, |text| text.replace("\"block\"}", "\"draft_only\"}"));
        assert!(ready.thresholds.contains("\"allowDraftOnly\":1"), "{}", ready.thresholds);
        let input = ready.input.unwrap();
        assert_eq!(input.run_mode, crealeph_contracts::agent_input::RunMode::DryRun);
    }

    #[test]
    fn the_agent_is_given_what_the_readings_say() {
        let ready = samples::ready(Known::Coherent, false, |text| text);
        let input = ready.input.unwrap();
        assert_eq!(input.objective.action, ObjectiveAction::Plan);
        assert_eq!(input.run_mode, crealeph_contracts::agent_input::RunMode::Execute);
        assert_eq!(input.allowed_lineage.depends_on, ready.lineage);
        assert_eq!(input.allowed_artifact_types.as_slice().len(), 2);
        assert_eq!(input.snapshot_at, ready.snapshot_at);
    }

    #[test]
    // holds: invariant 1
    fn the_same_situation_gives_the_same_bytes() {
        let texts = [0, 1].map(|_| format!("{:?}", samples::decided(Known::Coherent, false, |text| text)));
        assert_eq!(texts[0], texts[1]);
    }
}
