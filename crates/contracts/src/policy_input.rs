//! PolicyInput (policy-engine-v1 §4): everything the policy engine may look at.

use serde_json::{Value, json};

use crate::agent_input::{Coherence, ContractVersion};
use crate::contract::{Contract, ContractName};
use crate::instant::Timestamp;
use crate::json::{JsonObject, Node, NodeKind, ObjectWriter};
use crate::scalar::{ActionName, Amount, Name, Number, Ratio, RobotId, TenantId};
use crate::shape::{Shape, missing, object, wrong_type};
use crate::violation::Report;

/// When each kind of evidence was last true; null if a module has produced nothing (R5). Further keys are
/// timestamps too (R4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerRecency(Vec<(Box<str>, Option<Timestamp>)>);

impl LedgerRecency {
    /// The recency of these timestamps, sorted by name; the last one of a name counts.
    pub fn new(mut timestamps: Vec<(Box<str>, Option<Timestamp>)>) -> Self {
        timestamps.reverse();
        timestamps.sort_by(|(a, _), (b, _)| a.cmp(b));
        timestamps.dedup_by(|(later, _), (earlier, _)| later == earlier);
        LedgerRecency(timestamps)
    }

    /// The timestamp of that name, if there is one and it is not null.
    pub fn get(&self, name: &str) -> Option<&Timestamp> {
        self.0.iter().find(|(key, _)| &**key == name).and_then(|(_, timestamp)| timestamp.as_ref())
    }
}

impl Shape for LedgerRecency {
    crate::shape::scalar_parts!();
    const EXPECTED: &'static str = "an object of timestamps";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Object {
            return wrong_type::<Self>(node, clause, report);
        }
        let mut timestamps = Vec::with_capacity(8);
        for (key, value) in node.members() {
            let timestamp = match value.kind() {
                NodeKind::Null => None,
                _ => Timestamp::read(value, clause, report),
            };
            timestamps.push((key.text_value().into(), timestamp));
        }
        Some(LedgerRecency::new(timestamps))
    }

    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        for (name, timestamp) in &self.0 {
            match timestamp {
                Some(timestamp) => object.text(name, timestamp.as_str()),
                None => object.raw(name, "null"),
            };
        }
        object.end();
    }

    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": { "anyOf": [{ "type": "null" }, Timestamp::schema()] } })
    }
}

/// The numbers the policy decides by. Further numeric keys are kept (R4).
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// The least confidence that allows.
    pub min_confidence: Ratio,
    /// How old evidence may be, in minutes.
    pub max_staleness_minutes: Amount,
    /// How many distinct lineage ids the snapshot must hold.
    pub min_lineage_count: Amount,
    /// Any others, by name.
    pub further: Vec<(Box<str>, Number)>,
}

impl Thresholds {
    /// Draft-only execution is allowed: `allowDraftOnly` is there and 1 (R21). Nothing else implies it.
    pub fn allow_draft_only(&self) -> bool {
        allows_draft_only(&self.further)
    }
}

fn allows_draft_only(further: &[(Box<str>, Number)]) -> bool {
    further.iter().any(|(name, value)| &**name == "allowDraftOnly" && value.get() == 1.0)
}

/// The parts of [`Thresholds`] that could be read.
#[derive(Debug, Default)]
pub struct ThresholdsParts {
    /// The least confidence that allows.
    pub min_confidence: Option<Ratio>,
    /// How old evidence may be, in minutes.
    pub max_staleness_minutes: Option<Amount>,
    /// How many distinct lineage ids the snapshot must hold.
    pub min_lineage_count: Option<Amount>,
    /// Any others that could be read, by name.
    pub further: Vec<(Box<str>, Number)>,
}

impl ThresholdsParts {
    /// Draft-only execution is allowed (R21).
    pub fn allow_draft_only(&self) -> bool {
        allows_draft_only(&self.further)
    }
}

impl Shape for Thresholds {
    type Parts = ThresholdsParts;
    const EXPECTED: &'static str =
        "an object with `minConfidence`, `maxStalenessMinutes` and `minLineageCount`, all numbers";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        let mut parts = ThresholdsParts::default();
        if node.kind() != NodeKind::Object {
            return wrong_type::<Self>(node, clause, report);
        }
        let (mut has_confidence, mut has_staleness, mut has_lineage) = (false, false, false);
        for (key, value) in node.members() {
            match &*key.text_value() {
                "minConfidence" => {
                    has_confidence = true;
                    parts.min_confidence = Ratio::read(value, clause, report);
                }
                "maxStalenessMinutes" => {
                    has_staleness = true;
                    parts.max_staleness_minutes = Amount::read(value, clause, report);
                }
                "minLineageCount" => {
                    has_lineage = true;
                    parts.min_lineage_count = Amount::read(value, clause, report);
                }
                name => {
                    if let Some(number) = Number::read(value, "R4", report) {
                        parts.further.push((name.into(), number));
                    }
                }
            }
        }
        if !has_confidence {
            missing::<Ratio>(node, "minConfidence", clause, report);
        }
        if !has_staleness {
            missing::<Amount>(node, "maxStalenessMinutes", clause, report);
        }
        if !has_lineage {
            missing::<Amount>(node, "minLineageCount", clause, report);
        }
        parts
    }

    fn finish(parts: Self::Parts) -> Option<Self> {
        Some(Thresholds {
            min_confidence: parts.min_confidence?,
            max_staleness_minutes: parts.max_staleness_minutes?,
            min_lineage_count: parts.min_lineage_count?,
            further: parts.further,
        })
    }

    fn into_parts(self) -> Self::Parts {
        ThresholdsParts {
            min_confidence: Some(self.min_confidence),
            max_staleness_minutes: Some(self.max_staleness_minutes),
            min_lineage_count: Some(self.min_lineage_count),
            further: self.further,
        }
    }

    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        object.number("minConfidence", self.min_confidence.get());
        object.number("maxStalenessMinutes", self.max_staleness_minutes.get());
        object.number("minLineageCount", self.min_lineage_count.get());
        for (name, number) in &self.further {
            object.number(name, number.get());
        }
        object.end();
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "minConfidence": Ratio::schema(),
                "maxStalenessMinutes": Amount::schema(),
                "minLineageCount": Amount::schema(),
            },
            "required": ["minConfidence", "maxStalenessMinutes", "minLineageCount"],
            "additionalProperties": { "type": "number" },
        })
    }
}

/// The full snapshot as it was sent, with the facts that the policy reads from it. Only the top level
/// is read, where CreAleph itself writes: a payload inside cannot pretend to be lineage.
#[derive(Clone, Debug, PartialEq)]
pub struct IntelligenceSnapshot {
    object: JsonObject,
    lineage_count: usize,
    outdated: Vec<Box<str>>,
    partial: Vec<Box<str>>,
}

impl IntelligenceSnapshot {
    /// Takes a snapshot's object.
    pub fn new(object: JsonObject) -> Self {
        let facts = object.with(read_facts);
        Self::with_facts(object, facts)
    }

    fn with_facts(object: JsonObject, (lineage_count, outdated, partial): SnapshotFacts) -> Self {
        IntelligenceSnapshot { object, lineage_count, outdated, partial }
    }

    /// The snapshot as it was sent.
    pub fn object(&self) -> &JsonObject {
        &self.object
    }

    /// How many distinct ids `lineage.dependsOnLedgerIds` holds.
    pub fn lineage_count(&self) -> usize {
        self.lineage_count
    }

    /// The types that `coherence.outdated` lists.
    pub fn outdated(&self) -> &[Box<str>] {
        &self.outdated
    }

    /// The types that `coherence.partial` lists.
    pub fn partial(&self) -> &[Box<str>] {
        &self.partial
    }
}

type SnapshotFacts = (usize, Vec<Box<str>>, Vec<Box<str>>);

fn read_facts(snapshot: Node<'_>) -> SnapshotFacts {
    let coherence = snapshot.member("coherence");
    (count_lineage(snapshot), read_names(coherence, "outdated"), read_names(coherence, "partial"))
}

fn count_lineage(snapshot: Node<'_>) -> usize {
    let Some(lineage) = snapshot.member("lineage").and_then(|lineage| lineage.member("dependsOnLedgerIds"))
    else {
        return 0;
    };
    let mut ids: Vec<_> = lineage.elements().filter_map(Node::string).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

fn read_names(object: Option<Node<'_>>, key: &str) -> Vec<Box<str>> {
    let Some(names) = object.and_then(|object| object.member(key)) else { return Vec::new() };
    names.elements().filter_map(Node::string).map(|name| name.into()).collect()
}

impl Shape for IntelligenceSnapshot {
    crate::shape::scalar_parts!();
    const EXPECTED: &'static str = "a JSON object";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        let object = JsonObject::from_node(node, clause, report)?;
        Some(Self::with_facts(object, read_facts(node)))
    }

    fn write(&self, out: &mut String) {
        self.object.write(out);
    }

    fn schema() -> Value {
        JsonObject::schema()
    }
}

object! {
    /// What the requested action is for.
    RequestedObjective / RequestedObjectiveParts ["policy/4", "R4"] {
        /// The kind of objective.
        kind: Name = "type",
        /// What is to be done about it.
        action: Name = "action",
    }
}

object! {
    /// What the policy engine is asked: frozen, complete, the only thing it looks at.
    PolicyInput / PolicyInputParts ["policy/4", "R4"] {
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The robot.
        robot_id: RobotId = "robotId",
        /// The version of this contract.
        policy_contract_version: ContractVersion = "policyContractVersion",
        /// The instant at which freshness is judged.
        evaluated_at: Timestamp = "evaluatedAt",
        /// Whether the snapshot is coherent.
        coherence_status: Coherence = "coherenceStatus",
        /// When the snapshot was frozen.
        snapshot_at: Timestamp = "snapshotAt",
        /// What is known.
        intelligence_snapshot: IntelligenceSnapshot = "intelligenceSnapshot",
        /// How recent it is, by kind.
        ledger_recency: LedgerRecency = "ledgerRecency",
        /// The action that wants to run.
        requested_action: Option<ActionName> = "requestedAction",
        /// What it is for.
        requested_objective: Option<RequestedObjective> = "requestedObjective",
        /// The numbers to decide by.
        thresholds: Thresholds = "thresholds",
    }
}

impl Contract for PolicyInput {
    const NAME: ContractName = ContractName::PolicyInput;

    fn rules(_: &PolicyInputParts, _: &mut Report) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recency_is_by_name_and_the_last_of_a_name_counts() {
        let at = |text: &str| Some(Timestamp::parse(text).unwrap());
        let (early, late) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let recency = LedgerRecency::new(vec![
            ("signalsAt".into(), early.clone()),
            ("fusionAt".into(), None),
            ("copyAt".into(), early.clone()),
            ("signalsAt".into(), late.clone()),
        ]);
        assert_eq!(recency.get("signalsAt"), late.as_ref());
        assert_eq!(recency.get("copyAt"), early.as_ref());
        assert_eq!((recency.get("fusionAt"), recency.get("seoAt")), (None, None));
    }

    #[test]
    fn only_the_number_1_under_its_name_allows_drafts() {
        for (further, expected) in [
            (vec![("allowDraftOnly", 1.0)], true),
            (vec![("other", 2.0), ("allowDraftOnly", 1.0)], true),
            (vec![("allowDraftOnly", 2.0)], false),
            (vec![("allowDraftonly", 1.0)], false),
            (vec![], false),
        ] {
            let further = further.into_iter().map(|(name, value)| (name.into(), Number::new(value).unwrap()));
            let thresholds = Thresholds {
                min_confidence: Ratio::new(0.4).unwrap(),
                max_staleness_minutes: Amount::new(60.0).unwrap(),
                min_lineage_count: Amount::new(1.0).unwrap(),
                further: further.collect(),
            };
            assert_eq!(thresholds.allow_draft_only(), expected, "{thresholds:?}");
            assert_eq!(thresholds.into_parts().allow_draft_only(), expected);
        }
    }

    #[test]
    fn facts_are_read_only_from_the_top_level_of_a_snapshot() {
        let text = r#"{"lineage":{"dependsOnLedgerIds":["L1","L2","L1",3]},"coherence":{"outdated":["seo"],"partial":["copy","ads"]},"signals":{"lineage":{"dependsOnLedgerIds":["L9"]}}}"#;
        let snapshot = IntelligenceSnapshot::new(JsonObject::parse(text).unwrap());
        assert_eq!((snapshot.lineage_count(), snapshot.object().as_str()), (2, text));
        assert_eq!(snapshot.outdated(), [Box::from("seo")]);
        assert_eq!(snapshot.partial(), [Box::from("copy"), Box::from("ads")]);
        let bare = IntelligenceSnapshot::new(JsonObject::empty());
        assert_eq!((bare.lineage_count(), bare.outdated().len(), bare.partial().len()), (0, 0, 0));
    }
}
