//! From a decided attempt to its `execution_record`, and back: a repeat is answered from it (R11), and its decision can be
//! derived again. The fields are those of [`ExecutionRecord`]; the parts of a [`Record`] meet their own contracts.

use std::collections::BTreeMap;

use crealeph_contracts::agent_input::{ArtifactType, Coherence, ContractVersion};
use crealeph_contracts::builder::BuilderResponse;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::execution_record::{
    ExecutionRecord, OmittedPayloads, RecordedAgent, RecordedArtifact, RecordedGate, RecordedPolicy,
    RecordedSnapshot,
};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{ComposeError, JsonObject, Node};
use crealeph_contracts::scalar::{Amount, Count, ExecutionId, LedgerId, Literal};
use crealeph_contracts::shape::Set;
use crealeph_contracts::{BuilderRequest, PolicyOutput};

use super::conclude::Ended;
use super::decide::Ready;
use crate::coherence::CoherenceRules;
use crate::gate::Gate;
use crate::policy::{ActionSource, Rules, RulesSource, ThresholdsSource};
use crate::snapshot::Derivation;

/// The type of a record.
pub const EXECUTION_RECORD: Literal = Literal::new("execution_record");
/// How much of an agent's other output is kept.
const MAX_DIAGNOSTICS_BYTES: usize = 16 << 10;

/// The record of an attempt.
pub(super) fn record(
    ready: &Ready,
    ended: &Ended<'_>,
    made: &[RecordedArtifact],
    reason: &str,
    answer: &BuilderResponse,
) -> Result<ExecutionRecord, ComposeError> {
    let asked = &ready.asked;
    let Sections { snapshot, policy, gate } = Sections::of(ready)?;
    let agent = ended.ran.as_ref().map(|ran| RecordedAgent {
        identity: ran.identity.clone(),
        diagnostics: cut(ran.diagnostics, MAX_DIAGNOSTICS_BYTES).into(),
        tokens_used: ran.tokens_used.and_then(Amount::new),
    });
    Ok(ExecutionRecord {
        version: ContractVersion::V1,
        derivation: Some(count(Derivation::default().number().into())?),
        execution_id: asked.execution_id.clone(),
        attempt: asked.request.attempt,
        is_retry: ready.is_retry,
        fingerprint: asked.fingerprint()?,
        request: asked.request.clone(),
        rerun_of: asked.rerun_of.clone(),
        configuration: ready.configuration,
        snapshot,
        policy,
        gate,
        agent,
        artifacts: made.iter().cloned().collect(),
        reason: reason.into(),
        answer: answer.clone(),
    })
}

/// The beginning of a text, cut at a limit between characters.
pub(super) fn cut(text: &str, bound: usize) -> &str {
    text.get(..text.floor_char_boundary(bound)).unwrap_or(text)
}

/// A number as a record has it.
fn count(number: u64) -> Result<Count, ComposeError> {
    let too_large = || ComposeError { what: "the record", reason: format!("{number} is too large") };
    Count::new(number).ok_or_else(too_large)
}

/// A record read back.
#[derive(Clone, Debug)]
pub struct Record {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt.
    pub attempt: u64,
    /// What identifies a repeat.
    pub fingerprint: Blake3,
    /// The request, its executionId filled in.
    pub request: Valid<BuilderRequest>,
    /// The execution it tried again.
    pub rerun_of: Option<ExecutionId>,
    /// An earlier attempt had failed.
    pub is_retry: bool,
    /// The version of the configuration that was in force.
    pub configuration: Blake3,
    /// The place in the ledger up to which it was read.
    pub seq: u64,
    /// The time by which the snapshot's newest entries were found.
    pub derivation: Derivation,
    /// The snapshot's own time, as written.
    pub snapshot_at: String,
    /// Its coherence.
    pub coherence_status: Coherence,
    /// When freshness was judged.
    pub evaluated_at: Instant,
    /// The rules that were in force.
    pub rules: Rules,
    /// The coherence rules that were in force.
    pub coherence: CoherenceRules,
    /// The policy's answer.
    pub policy: Valid<PolicyOutput>,
    /// Whether the gate let the agent run.
    pub agent_ran: bool,
    /// The agent, if it was called.
    pub agent: Option<RecordedAgent>,
    /// The types that the agent was allowed to make.
    pub artifact_types: Vec<ArtifactType>,
    /// The artifacts that it made.
    pub artifacts: Vec<RecordedArtifact>,
    /// What it says about snapshot, policy and gate, for comparison.
    pub(super) sections: Sections,
    /// Why it ended so, for a person.
    pub reason: String,
    /// The answer.
    pub answer: Valid<BuilderResponse>,
}

/// The parts of a record that follow from the log and from each other.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    pub(super) snapshot: RecordedSnapshot,
    pub(super) policy: RecordedPolicy,
    pub(super) gate: RecordedGate,
}

impl Sections {
    /// The record of this decision.
    pub(super) fn of(ready: &Ready) -> Result<Sections, ComposeError> {
        let object = |what: &'static str, text: &str| {
            let unreadable = || ComposeError { what, reason: "it is not a JSON object".to_owned() };
            JsonObject::parse_own(text).ok_or_else(unreadable)
        };
        let omitted = ready.omitted.map(|omitted| {
            Ok(OmittedPayloads {
                bytes: count(omitted.bytes)?,
                count: count(omitted.count)?,
                limit: count(omitted.limit)?,
            })
        });
        let (runs, run_mode, outcome) = match ready.gate {
            Gate::Run { mode, outcome, .. } => (true, Some(mode), outcome),
            Gate::Refuse { outcome } => (false, None, outcome),
        };
        Ok(Sections {
            snapshot: RecordedSnapshot {
                seq: count(ready.seq)?,
                digest: ready.snapshot_digest,
                snapshot_at: ready.snapshot_at.clone(),
                coherence_status: ready.coherence.status,
                lineage_count: count(ready.lineage.as_slice().len() as u64)?,
                is_lineage_cut: ready.is_lineage_cut,
                omitted_payloads: omitted.transpose()?,
            },
            policy: RecordedPolicy {
                evaluated_at: ready.evaluated_at.clone(),
                input_digest: ready.policy_input_digest,
                thresholds: object("the record's thresholds", &ready.thresholds)?,
                rules: object("the record's rules", &ready.rules)?,
                rules_digest: Blake3::of(ready.rules.as_bytes()),
                coherence_rules: object("the record's coherence rules", &ready.coherence_rules)?,
                output: ready.policy.clone(),
            },
            gate: RecordedGate {
                runs,
                run_mode,
                outcome: outcome.state(),
                allowed_artifact_types: ready.artifact_types.as_slice().iter().copied().collect::<Set<_>>(),
            },
        })
    }
}

impl Record {
    /// Whether it names this artifact.
    pub fn names(&self, id: &LedgerId, kind: &str) -> bool {
        self.artifacts.iter().any(|artifact| artifact.id == *id && artifact.kind.as_str() == kind)
    }

    /// Reads a record's payload; `None` if it is not one that the Builder wrote.
    pub fn read(payload: &str) -> Option<Record> {
        let record = ExecutionRecord::parse(payload.as_bytes()).ok()?;
        let ExecutionRecord { snapshot, policy, gate, .. } = record;
        let derivation = match record.derivation {
            Some(number) => Derivation::from_number(number.get())?,
            None => Derivation::Arrival,
        };
        Some(Record {
            execution_id: record.execution_id,
            attempt: record.attempt.get(),
            fingerprint: record.fingerprint,
            request: Valid::check(record.request).ok()?,
            rerun_of: record.rerun_of,
            is_retry: record.is_retry,
            configuration: record.configuration,
            seq: snapshot.seq.get(),
            derivation,
            snapshot_at: snapshot.snapshot_at.as_str().to_owned(),
            coherence_status: snapshot.coherence_status,
            evaluated_at: policy.evaluated_at.instant(),
            rules: policy.rules.with(rules)?,
            coherence: policy.coherence_rules.with(coherence_rules)?,
            policy: Valid::check(policy.output.clone()).ok()?,
            agent_ran: gate.runs,
            agent: record.agent,
            artifact_types: gate.allowed_artifact_types.as_slice().to_vec(),
            artifacts: record.artifacts.as_slice().to_vec(),
            sections: Sections { snapshot, policy, gate },
            reason: record.reason.into(),
            answer: Valid::check(record.answer).ok()?,
        })
    }
}

/// Coherence rules from their JSON; a record without a limit of the snapshot was written without one.
fn coherence_rules(node: Node<'_>) -> Option<CoherenceRules> {
    let rules: CoherenceRules = serde_json::from_str(node.source()).ok()?;
    let is_bounded = node.member("snapshot_bytes").is_some();
    Some(CoherenceRules { snapshot_bytes: rules.snapshot_bytes.filter(|_| is_bounded), ..rules })
}

/// Rules from the JSON that [`Rules::to_json`] writes.
fn rules(node: Node<'_>) -> Option<Rules> {
    let names = |array: Node<'_>| -> Option<Vec<String>> {
        array.elements().map(|name| name.string().map(|name| name.into_owned())).collect()
    };
    let mut actions = BTreeMap::new();
    for (name, needs) in node.member("actions")?.members() {
        actions.insert(name.text_value().into_owned(), ActionSource { needs: names(needs)? });
    }
    if actions.is_empty() {
        return Some(Rules::none());
    }
    let mut refresh = BTreeMap::new();
    for (timestamp, refreshers) in node.member("refresh")?.members() {
        refresh.insert(timestamp.text_value().into_owned(), names(refreshers)?);
    }
    let thresholds = node.member("thresholds")?;
    let number = |key| thresholds.member(key).and_then(Node::number);
    let source = RulesSource {
        thresholds: ThresholdsSource {
            min_confidence: number("minConfidence")?,
            max_staleness_minutes: number("maxStalenessMinutes")?,
            min_lineage_count: number("minLineageCount")?,
        },
        actions: Some(actions),
        refresh: Some(refresh),
        ..RulesSource::default()
    };
    Rules::recorded(&source).ok()
}
