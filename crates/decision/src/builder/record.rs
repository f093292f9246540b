//! The `execution_record` of an attempt: everything its decision rested on and its answer, so that a repeat is
//! answered from it (R11) and the decision can be derived again. Written beside the event, never instead of it.

use std::collections::BTreeMap;

use crealeph_contracts::builder::BuilderResponse;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{JsonObject, Limits, Node, ObjectWriter};
use crealeph_contracts::scalar::{ExecutionId, Literal};
use crealeph_contracts::shape::Shape as _;
use crealeph_contracts::{BuilderRequest, PolicyOutput};

use super::conclude::{Ended, Made};
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
    made: &[Made],
    reason: &str,
    answer: &BuilderResponse,
) -> JsonObject {
    let asked = &ready.asked;
    JsonObject::build(|object| {
        object.text("recordVersion", "v1").raw("derivation", &Derivation::default().number().to_string());
        object.text("executionId", asked.execution_id.as_str());
        object.raw("attempt", &asked.attempt().to_string()).raw("isRetry", json_bool(ready.is_retry));
        object.text("fingerprint", &asked.fingerprint().to_string());
        object.raw("request", &to_json(&asked.request));
        if let Some(rerun_of) = &asked.rerun_of {
            object.text("rerunOfExecutionId", rerun_of.as_str());
        }
        object.text("configurationVersion", &ready.configuration.to_string());
        write_snapshot(ready, object);
        write_policy(ready, object);
        write_gate(ready, object);
        if let Some(ran) = &ended.ran {
            let mut agent = ObjectWriter::new(object.key("agent"));
            agent.raw("identity", ran.identity.as_str());
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

fn write_snapshot(ready: &Ready, object: &mut ObjectWriter<'_>) {
    let mut snapshot = ObjectWriter::new(object.key("snapshot"));
    snapshot.raw("seq", &ready.seq.to_string()).text("digest", &ready.snapshot_digest.to_string());
    snapshot.text("snapshotAt", ready.snapshot_at.as_str());
    snapshot.text("coherenceStatus", ready.coherence.status.as_str());
    snapshot.raw("lineageCount", &ready.lineage.as_slice().len().to_string());
    snapshot.raw("isLineageCut", json_bool(ready.is_lineage_cut));
    snapshot.end();
}

fn write_policy(ready: &Ready, object: &mut ObjectWriter<'_>) {
    let mut policy = ObjectWriter::new(object.key("policy"));
    policy.text("evaluatedAt", ready.evaluated_at.as_str());
    policy.text("inputDigest", &ready.policy_input_digest.to_string());
    policy.raw("thresholds", &ready.thresholds).raw("rules", &ready.rules);
    policy.text("rulesDigest", &Blake3::of(ready.rules.as_bytes()).to_string());
    policy.raw("coherenceRules", &ready.coherence_rules);
    policy.raw("output", &to_json(&ready.policy));
    policy.end();
}

fn write_gate(ready: &Ready, object: &mut ObjectWriter<'_>) {
    let mut gate = ObjectWriter::new(object.key("gate"));
    match ready.gate {
        Gate::Run { mode, outcome, .. } => {
            gate.raw("runs", "true").text("runMode", mode.as_str());
            gate.text("outcome", outcome.state().as_str());
        }
        Gate::Refuse { outcome } => {
            gate.raw("runs", "false").text("outcome", outcome.state().as_str());
        }
    }
    gate.texts("allowedArtifactTypes", ready.artifact_types.as_slice().iter().map(|kind| kind.as_str()));
    gate.end();
}

fn json_bool(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// The beginning of a text, within a bound, on a character's edge.
pub(super) fn cut(text: &str, bound: usize) -> &str {
    let end = (0..=bound.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// A record read back.
#[derive(Clone, Debug)]
pub struct Record {
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
    /// Why it ended so, for a person.
    pub reason: String,
    /// The answer.
    pub answer: Valid<BuilderResponse>,
}

impl Record {
    /// Reads a record's payload; `None` where it is not one that the Builder wrote.
    pub fn read(payload: &str) -> Option<Record> {
        JsonObject::parse(payload)?.with(|record| {
            let text = |node: Option<Node<'_>>| node.and_then(Node::string).map(|text| text.into_owned());
            let digest = |node| Blake3::parse(&text(node)?);
            let (snapshot, policy) = (record.member("snapshot")?, record.member("policy")?);
            let seq = snapshot.member("seq")?.number().filter(|seq| *seq >= 0.0 && seq.fract() == 0.0)?;
            let limits = Limits { max_bytes: usize::MAX };
            Some(Record {
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
                evaluated_at: Instant::parse(&text(policy.member("evaluatedAt"))?).ok()?,
                policy_input_digest: digest(policy.member("inputDigest"))?,
                rules: rules(policy.member("rules")?)?,
                coherence: serde_json::from_str(policy.member("coherenceRules")?.source()).ok()?,
                policy: Valid::parse(policy.member("output")?.source().as_bytes(), &limits).ok()?,
                agent_ran: record.member("gate")?.member("runs")?.boolean()?,
                reason: text(record.member("reason"))?,
                answer: Valid::parse(record.member("answer")?.source().as_bytes(), &limits).ok()?,
            })
        })
    }
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
    Rules::load(&source).ok()
}

/// An artifact's metadata as the record keeps it.
pub(super) fn metadata(artifact: &crealeph_contracts::agent_output::AgentArtifact) -> String {
    let mut out = String::new();
    artifact.metadata.write(&mut out);
    out
}
