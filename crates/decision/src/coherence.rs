//! Whether a snapshot is coherent (R18): each artifact must be based on the newest evidence.

use crealeph_contracts::agent_input::Coherence;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::json::ObjectWriter;

use crate::snapshot::{Newest, NewestEntries, SnapshotType};

/// Which types are judged, and by which evidence. From configuration, per tenant and robot.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoherenceRules {
    /// The types that count as evidence.
    pub upstream: Vec<SnapshotType>,
    /// The types that must be based on it; none: everything is coherent.
    pub judged: Vec<SnapshotType>,
    /// The states in which an entry does not count.
    pub uncounted_states: Vec<String>,
    /// Evidence that is newer than the used evidence by no more than this does not yet count as newer.
    pub grace_minutes: u32,
    /// How many bytes of payloads a snapshot holds; `None` for no limit, as in records of earlier versions.
    pub snapshot_bytes: Option<u64>,
}

/// How many bytes of payloads a snapshot holds by default.
pub const DEFAULT_SNAPSHOT_BYTES: u64 = 16 << 20;

impl Default for CoherenceRules {
    fn default() -> Self {
        CoherenceRules {
            upstream: vec![SnapshotType::Signal, SnapshotType::Fusion],
            judged: vec![SnapshotType::Idea, SnapshotType::Copy, SnapshotType::Playbook],
            uncounted_states: vec!["draft".to_owned()],
            grace_minutes: 0,
            snapshot_bytes: Some(DEFAULT_SNAPSHOT_BYTES),
        }
    }
}

impl CoherenceRules {
    /// Whether an entry counts, by its state.
    pub fn counts(&self, entry: &Entry) -> bool {
        let state = entry.state.as_ref().map(|state| state.as_str());
        !self.uncounted_states.iter().any(|uncounted| Some(uncounted.as_str()) == state)
    }

    /// The rules as JSON, with their names in configuration.
    pub fn to_json(&self) -> String {
        let names = |types: &[SnapshotType]| types.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object.texts("upstream", names(&self.upstream)).texts("judged", names(&self.judged));
        object.texts("uncounted_states", &self.uncounted_states);
        object.raw("grace_minutes", &self.grace_minutes.to_string());
        if let Some(bytes) = self.snapshot_bytes {
            object.raw("snapshot_bytes", &bytes.to_string());
        }
        object.end();
        out
    }
}

/// Why an artifact is not coherent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is missing.
    Missing,
    /// It names no evidence that it is based on.
    NoLineage,
    /// It names an entry that the ledger does not hold.
    BrokenLineage,
    /// There is older evidence of this type, but it was not used.
    Unused(SnapshotType),
    /// There is newer evidence of this type than was used.
    Overtaken(SnapshotType),
    /// There is evidence of this type that is newer than the artifact, which used none.
    Ignored(SnapshotType),
}

impl Flaw {
    fn is_outdated(self) -> bool {
        matches!(self, Flaw::Overtaken(_) | Flaw::Ignored(_))
    }

    /// The flaw of these types, for a person.
    pub(crate) fn sentence(self, types: &[SnapshotType]) -> String {
        let newest = listed(types, "and");
        match self {
            Flaw::Missing => format!("there is no {}", listed(types, "or")),
            Flaw::NoLineage => format!("no lineage is given for the newest {newest}"),
            Flaw::BrokenLineage => {
                format!("the lineage of the newest {newest} names an entry the ledger does not hold")
            }
            Flaw::Unused(evidence) => format!("no {} was used for the newest {newest}", evidence.as_str()),
            Flaw::Overtaken(evidence) => {
                format!("a {} is newer than the one used for the newest {newest}", evidence.as_str())
            }
            Flaw::Ignored(evidence) => {
                format!("a {} is newer than the newest {newest}, made without one", evidence.as_str())
            }
        }
    }
}

/// `idea`, `idea and copy`, `idea, copy and playbook`.
fn listed(types: &[SnapshotType], last: &str) -> String {
    let names: Vec<&str> = types.iter().map(|kind| kind.as_str()).collect();
    match names.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => names.join(""),
    }
}

/// Whether a snapshot is coherent, and why not.
#[derive(Clone, Debug, PartialEq)]
pub struct CoherenceVerdict {
    /// The status.
    pub status: Coherence,
    /// Every flaw, by type, in the order judged.
    pub flaws: Vec<(SnapshotType, Flaw)>,
    /// One sentence for a person.
    pub reason: String,
}

impl CoherenceVerdict {
    /// The types that are based on outdated evidence.
    pub fn outdated(&self) -> Vec<SnapshotType> {
        self.types(Flaw::is_outdated)
    }

    /// The types that are missing or incomplete.
    pub fn partial(&self) -> Vec<SnapshotType> {
        self.types(|flaw| !flaw.is_outdated())
    }

    fn types(&self, is_wanted: impl Fn(Flaw) -> bool) -> Vec<SnapshotType> {
        let mut types: Vec<_> =
            self.flaws.iter().filter(|(_, flaw)| is_wanted(*flaw)).map(|(kind, _)| *kind).collect();
        types.dedup();
        types
    }

    /// Adds the verdict to `out` as JSON.
    pub fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        object.text("status", self.status.as_str());
        object.texts("outdated", self.outdated().into_iter().map(SnapshotType::as_str));
        object.texts("partial", self.partial().into_iter().map(SnapshotType::as_str));
        object.text("reason", &self.reason);
        object.end();
    }
}

/// Judges the newest entries: they are stale if any type is outdated, else partial if there is any flaw.
pub fn coherence(newest: &NewestEntries, rules: &CoherenceRules) -> CoherenceVerdict {
    let mut flaws = Vec::new();
    for &kind in &rules.judged {
        match newest.get(kind) {
            None => flaws.push((kind, Flaw::Missing)),
            Some(artifact) => {
                flaws.extend(artifact_flaws(Some(kind), artifact, newest, rules).map(|flaw| (kind, flaw)))
            }
        }
    }
    let is_stale = flaws.iter().any(|(_, flaw)| flaw.is_outdated());
    let status = match (is_stale, flaws.is_empty()) {
        (true, _) => Coherence::Stale,
        (false, false) => Coherence::Partial,
        (false, true) => Coherence::Coherent,
    };
    let mut decisive: Vec<(Flaw, Vec<SnapshotType>)> = Vec::new();
    for (kind, flaw) in flaws.iter().filter(|(_, flaw)| flaw.is_outdated() == is_stale) {
        match decisive.iter_mut().find(|(known, _)| known == flaw) {
            Some((_, types)) => types.push(*kind),
            None => decisive.push((*flaw, vec![*kind])),
        }
    }
    let sentences: Vec<String> = decisive.iter().map(|(flaw, types)| flaw.sentence(types)).collect();
    let reason = match sentences.as_slice() {
        [] => "everything rests on the newest evidence".to_owned(),
        sentences => sentences.join("; "),
    };
    CoherenceVerdict { status, flaws, reason }
}

/// Why an entry that is not the newest of its type, such as a draft, is based on outdated evidence (R18, R33); `None` if it is
/// not.
pub fn outdated_by(artifact: &Newest, newest: &NewestEntries, rules: &CoherenceRules) -> Option<String> {
    let own = SnapshotType::parse(artifact.entry.kind.as_str());
    let flaws = artifact_flaws(own, artifact, newest, rules).filter(|flaw| flaw.is_outdated());
    let sentences: Vec<String> = flaws
        .filter_map(|flaw| match flaw {
            Flaw::Overtaken(evidence) => {
                Some(format!("a {} is newer than the one it rests on", evidence.as_str()))
            }
            Flaw::Ignored(evidence) => {
                Some(format!("a {} is newer, and it rests on none", evidence.as_str()))
            }
            _ => None,
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn artifact_flaws(
    kind: Option<SnapshotType>,
    artifact: &Newest,
    newest: &NewestEntries,
    rules: &CoherenceRules,
) -> impl Iterator<Item = Flaw> {
    let grace_nanos = i128::from(rules.grace_minutes) * 60_000_000_000;
    let mut flaws = Vec::new();
    if artifact.entry.depends_on().is_empty() {
        flaws.push(Flaw::NoLineage);
    } else if artifact.reach.is_broken {
        flaws.push(Flaw::BrokenLineage);
    }
    for &evidence in rules.upstream.iter().filter(|evidence| Some(**evidence) != kind) {
        let Some(newest) = newest.get(evidence) else { continue };
        match artifact.reach.newest.get(evidence) {
            Some(used) => {
                let lead_nanos = newest.place.at.nanos_since(used.at);
                let is_within_grace = grace_nanos > 0 && lead_nanos <= grace_nanos;
                if newest.place > *used && !is_within_grace {
                    flaws.push(Flaw::Overtaken(evidence));
                }
            }
            None if newest.place > artifact.place => flaws.push(Flaw::Ignored(evidence)),
            None if flaws.contains(&Flaw::NoLineage) => {}
            None => flaws.push(Flaw::Unused(evidence)),
        }
    }
    flaws.into_iter()
}
