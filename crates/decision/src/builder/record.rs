//! The `execution_record` of an attempt: everything its decision rested on and its answer, so that a repeat is
//! answered from it (R11) and the decision can be derived again. Written beside the event, never instead of it.

use std::collections::BTreeMap;

use crealeph_contracts::agent_input::{ArtifactType, Coherence};
use crealeph_contracts::builder::BuilderResponse;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{ComposeError, JsonObject, Limits, Node, ObjectWriter};
use crealeph_contracts::scalar::{Attempt, ExecutionId, LedgerId, Literal};
use crealeph_contracts::shape::Shape as _;
use crealeph_contracts::{BuilderRequest, PolicyOutput};

use super::conclude::{Ended, WrittenArtifact};
use super::decide::Ready;
use crate::coherence::CoherenceRules;
use crate::gate::Gate;
use crate::policy::{ActionSource, Rules, RulesSource, ThresholdsSource};
use crate::snapshot::Derivation;

/// The type of a record.
pub const EXECUTION_RECORD: Literal = Literal::new("execution_record");
/// How much of what an agent wrote besides is kept.
const MAX_DIAGNOSTICS_BYTES: usize = 16 << 10;

/// Writes the record of an attempt.
pub(super) fn write(
    ready: &Ready,
    ended: &Ended<'_>,
    made: &[WrittenArtifact],
    reason: &str,
    answer: &BuilderResponse,
) -> Result<JsonObject, ComposeError> {
    let asked = &ready.asked;
    let fingerprint = asked.fingerprint()?.to_string();
    JsonObject::compose("the record", |object| {
        object.text("recordVersion", "v1").raw("derivation", &Derivation::default().number().to_string());
        object.text("executionId", asked.execution_id.as_str());
        object.raw("attempt", &asked.attempt().to_string()).boolean("isRetry", ready.is_retry);
        object.text("fingerprint", &fingerprint);
        object.raw("request", &to_json(&asked.request));
        if let Some(rerun_of) = &asked.rerun_of {
            object.text("rerunOfExecutionId", rerun_of.as_str());
        }
        object.text("configurationVersion", &ready.configuration.to_string());
        let mut section = |key: &str, write: fn(&Ready, &mut ObjectWriter<'_>)| {
            let mut section = ObjectWriter::new(object.key(key));
            write(ready, &mut section);
            section.end();
        };
        section("snapshot", write_snapshot);
        section("policy", write_policy);
        section("gate", write_gate);
        if let Some(ran) = &ended.ran {
            let mut agent = ObjectWriter::new(object.key("agent"));
            agent.object("identity", ran.identity);
            agent.text("diagnostics", cut(ran.diagnostics, MAX_DIAGNOSTICS_BYTES));
            if let Some(tokens) = ran.tokens_used.filter(|tokens| tokens.is_finite()) {
                agent.number("tokensUsed", tokens);
            }
            agent.end();
        }
        let metadata = object.key("artifacts");
        metadata.push('[');
        for (position, made) in made.iter().enumerate() {
            if position > 0 {
                metadata.push(',');
            }
            let mut artifact = ObjectWriter::new(metadata);
            artifact.text("id", made.id.as_str()).text("type", made.kind.as_str());
            artifact.raw("metadata", &made.metadata);
            artifact.end();
        }
        metadata.push(']');
        object.text("reason", reason);
        object.raw("answer", &to_json(answer));
    })
}

fn write_snapshot(ready: &Ready, snapshot: &mut ObjectWriter<'_>) {
    snapshot.raw("seq", &ready.seq.to_string()).text("digest", &ready.snapshot_digest.to_string());
    snapshot.text("snapshotAt", ready.snapshot_at.as_str());
    snapshot.text("coherenceStatus", ready.coherence.status.as_str());
    snapshot.raw("lineageCount", &ready.lineage.as_slice().len().to_string());
    snapshot.boolean("isLineageCut", ready.is_lineage_cut);
    if let Some(omitted) = &ready.omitted {
        omitted.write(snapshot.key("omittedPayloads"));
    }
}

fn write_policy(ready: &Ready, policy: &mut ObjectWriter<'_>) {
    policy.text("evaluatedAt", ready.evaluated_at.as_str());
    policy.text("inputDigest", &ready.policy_input_digest.to_string());
    policy.raw("thresholds", &ready.thresholds).raw("rules", &ready.rules);
    policy.text("rulesDigest", &Blake3::of(ready.rules.as_bytes()).to_string());
    policy.raw("coherenceRules", &ready.coherence_rules);
    policy.raw("output", &to_json(&ready.policy));
}

fn write_gate(ready: &Ready, gate: &mut ObjectWriter<'_>) {
    match ready.gate {
        Gate::Run { mode, outcome, .. } => {
            gate.boolean("runs", true).text("runMode", mode.as_str());
            gate.text("outcome", outcome.state().as_str());
        }
        Gate::Refuse { outcome } => {
            gate.boolean("runs", false).text("outcome", outcome.state().as_str());
        }
    }
    gate.texts("allowedArtifactTypes", ready.artifact_types.as_slice().iter().map(|kind| kind.as_str()));
}

/// The beginning of a text, within a bound, on a character's edge.
pub(super) fn cut(text: &str, bound: usize) -> &str {
    let end = (0..=bound.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// A record read back.
#[derive(Clone, Debug)]
pub struct Record {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Which try.
    pub attempt: u64,
    /// What a repeat is recognised by.
    pub fingerprint: Blake3,
    /// The request, its executionId filled in.
    pub request: Valid<BuilderRequest>,
    /// The execution it tried again.
    pub rerun_of: Option<ExecutionId>,
    /// An earlier attempt had failed.
    pub is_retry: bool,
    /// The version of the configuration that was in force.
    pub configuration: Blake3,
    /// The place in the ledger up to which was read.
    pub seq: u64,
    /// By which time the snapshot's newest entries were found.
    pub derivation: Derivation,
    /// The digest of the snapshot.
    pub snapshot_digest: Blake3,
    /// The snapshot's own time, as written.
    pub snapshot_at: String,
    /// Its coherence.
    pub coherence_status: Coherence,
    /// When freshness was judged.
    pub evaluated_at: Instant,
    /// The digest of the PolicyInput.
    pub policy_input_digest: Blake3,
    /// The rules that were in force.
    pub rules: Rules,
    /// The coherence rules that were in force.
    pub coherence: CoherenceRules,
    /// What the policy said.
    pub policy: Valid<PolicyOutput>,
    /// Whether the gate let the agent run.
    pub agent_ran: bool,
    /// What the agent might make.
    pub artifact_types: Vec<ArtifactType>,
    /// What it made.
    pub artifacts: Vec<(LedgerId, ArtifactType)>,
    /// What it says of snapshot, policy and gate, to be compared.
    pub(super) sections: Sections,
    /// Why it ended so, for a person.
    pub reason: String,
    /// The answer.
    pub answer: Valid<BuilderResponse>,
}

/// The parts of a record that follow from the log and from each other.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    pub(super) snapshot: JsonObject,
    pub(super) policy: JsonObject,
    pub(super) gate: JsonObject,
}

impl Sections {
    /// What a record of this decision says.
    pub(super) fn of(ready: &Ready) -> Result<Sections, ComposeError> {
        Ok(Sections {
            snapshot: JsonObject::compose("the record's snapshot", |object| write_snapshot(ready, object))?,
            policy: JsonObject::compose("the record's policy", |object| write_policy(ready, object))?,
            gate: JsonObject::compose("the record's gate", |object| write_gate(ready, object))?,
        })
    }
}

impl Record {
    /// Whether it names this artifact.
    pub fn names(&self, id: &LedgerId, kind: &str) -> bool {
        self.artifacts.iter().any(|(named, type_)| named == id && type_.as_str() == kind)
    }

    /// Reads a record's payload; `None` where it is not one that the Builder wrote.
    pub fn read(payload: &str) -> Option<Record> {
        JsonObject::parse_own(payload)?.with(|record| {
            let text = |node: Option<Node<'_>>| node.and_then(Node::string).map(|text| text.into_owned());
            let digest = |node| Blake3::parse(&text(node)?);
            let (snapshot, policy) = (record.member("snapshot")?, record.member("policy")?);
            let gate = record.member("gate")?;
            let object = |node: Node<'_>| JsonObject::parse_own(node.source());
            let seq = snapshot.member("seq")?.number().filter(|seq| *seq >= 0.0 && seq.fract() == 0.0)?;
            let limits = Limits::own(usize::MAX);
            Some(Record {
                execution_id: ExecutionId::parse(&text(record.member("executionId"))?).ok()?,
                attempt: Attempt::new(record.member("attempt")?.number()? as u64)?.get(),
                fingerprint: digest(record.member("fingerprint"))?,
                request: Valid::parse(record.member("request")?.source().as_bytes(), &limits).ok()?,
                rerun_of: match record.member("rerunOfExecutionId") {
                    Some(id) => Some(ExecutionId::parse(&id.string()?).ok()?),
                    None => None,
                },
                is_retry: record.member("isRetry")?.boolean()?,
                configuration: digest(record.member("configurationVersion"))?,
                seq: seq as u64,
                derivation: match record.member("derivation") {
                    Some(number) => Derivation::from_number(number.number()?)?,
                    None => Derivation::Arrival,
                },
                snapshot_digest: digest(snapshot.member("digest"))?,
                snapshot_at: text(snapshot.member("snapshotAt"))?,
                coherence_status: Coherence::parse(&text(snapshot.member("coherenceStatus"))?)?,
                evaluated_at: Instant::parse(&text(policy.member("evaluatedAt"))?).ok()?,
                policy_input_digest: digest(policy.member("inputDigest"))?,
                rules: rules(policy.member("rules")?)?,
                coherence: coherence_rules(policy.member("coherenceRules")?)?,
                policy: Valid::parse(policy.member("output")?.source().as_bytes(), &limits).ok()?,
                agent_ran: gate.member("runs")?.boolean()?,
                artifact_types: gate
                    .member("allowedArtifactTypes")?
                    .elements()
                    .map(|kind| ArtifactType::parse(&kind.string()?))
                    .collect::<Option<_>>()?,
                artifacts: record
                    .member("artifacts")?
                    .elements()
                    .map(|it| {
                        let id = LedgerId::parse(&text(it.member("id"))?).ok()?;
                        Some((id, ArtifactType::parse(&text(it.member("type"))?)?))
                    })
                    .collect::<Option<_>>()?,
                sections: Sections {
                    snapshot: object(snapshot)?,
                    policy: object(policy)?,
                    gate: object(gate)?,
                },
                reason: text(record.member("reason"))?,
                answer: Valid::parse(record.member("answer")?.source().as_bytes(), &limits).ok()?,
            })
        })
    }
}

/// Coherence rules from their JSON; a record that names no bound of the snapshot was written without one.
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

/// An artifact's metadata as the record keeps it.
pub(super) fn metadata(artifact: &crealeph_contracts::agent_output::AgentArtifact) -> String {
    let mut out = String::new();
    artifact.metadata.write(&mut out);
    out
}
