//! An entry as the ledger works with it: the whole row with its derived values, the part that lineages need, an
//! outline without payload, and the unchecked text for an export.

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::execution_event::{ExecutionEvent, ExecutionState};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{ClientKey, LedgerId, RobotId};
use crealeph_decision::snapshot::SnapshotType;

use crate::entry::{Content, StoredEntry};
use crate::position::{Millis, Seq};
use crate::reach::{EffectiveReach, EffectiveTime, LineageReach};

/// A stored entry with its leaf and the ledger's derived values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryRow {
    pub entry: StoredEntry,
    /// Its leaf in the Merkle log.
    pub leaf: Sha256,
    pub derived: DerivedColumns,
}

impl EntryRow {
    /// The identity that it is found by as an event; `None` if it is none, or its columns were changed.
    pub(crate) fn event_identity(&self) -> Option<EventIdentity> {
        let content = &self.entry.content;
        Some(EventIdentity {
            execution: self.derived.execution.clone()?,
            robot: content.robot_id.as_str().to_owned(),
            attempt: self.derived.attempt?,
            state: ExecutionState::parse(content.state.as_str()).filter(|_| content.is_event())?,
        })
    }
}

/// What the ledger derives from an entry and from the entries it depends on. Readers find entries by it, and no hash
/// covers it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DerivedColumns {
    /// The execution it belongs to, if any.
    pub execution: Option<String>,
    /// For an event, its attempt.
    pub attempt: Option<u64>,
    /// What its lineage reaches, by arrival.
    pub reach: LineageReach,
    /// What its lineage reaches, by effective time.
    pub used: EffectiveReach,
    /// The effective newest of its class up to here; only for the snapshot types.
    pub newest: Option<Seq>,
}

impl DerivedColumns {
    /// Derives everything except the newest of the class, which depends on the log as a whole.
    pub(crate) fn new<'a>(
        content: &Content,
        event: Option<&EventIdentity>,
        parents: impl Iterator<Item = &'a LineageNode>,
    ) -> DerivedColumns {
        let (execution, attempt) = match event {
            Some(event) => (Some(event.execution.clone()), Some(event.attempt)),
            None => (content.execution_id.as_ref().map(|id| id.as_str().to_owned()), None),
        };
        let mut derived = DerivedColumns { execution, attempt, ..DerivedColumns::default() };
        for parent in parents.filter(|parent| parent.robot_id == content.robot_id) {
            derived.reach.extend(&parent.kind, parent.seq, &parent.reach);
            derived.used.extend(&parent.kind, parent.effective(), &parent.used);
        }
        derived
    }
}

/// The part of an entry that lineages need: all that the entries which depend on it are judged and derived by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LineageNode {
    pub seq: Seq,
    pub id: LedgerId,
    pub robot_id: RobotId,
    pub kind: String,
    pub state: String,
    pub key: Option<ClientKey>,
    pub created_at: Millis,
    /// Its effective time (R20).
    pub effective_at: Instant,
    pub depends_on: Vec<LedgerId>,
    pub reach: LineageReach,
    pub used: EffectiveReach,
}

impl LineageNode {
    /// Its effective time and sequence number.
    pub(crate) fn effective(&self) -> EffectiveTime {
        EffectiveTime { at: self.effective_at, seq: self.seq }
    }

    /// Its class, if it is of a snapshot type.
    pub(crate) fn class(&self) -> Option<EntryClass> {
        EntryClass::new(self.robot_id.as_str(), &self.kind, &self.state)
    }
}

impl From<&EntryRow> for LineageNode {
    fn from(EntryRow { entry, derived, .. }: &EntryRow) -> LineageNode {
        let content = &entry.content;
        LineageNode {
            seq: entry.seq,
            id: entry.id.clone(),
            robot_id: content.robot_id.clone(),
            kind: content.kind.as_str().to_owned(),
            state: content.state.as_str().to_owned(),
            key: content.key.clone(),
            created_at: entry.created_at,
            effective_at: entry.effective().at,
            depends_on: content.depends_on.clone(),
            reach: derived.reach.clone(),
            used: derived.used.clone(),
        }
    }
}

/// A robot's entries of a snapshot type in a state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryClass {
    pub robot: String,
    pub kind: String,
    pub state: String,
}

impl EntryClass {
    fn new(robot: &str, kind: &str, state: &str) -> Option<EntryClass> {
        SnapshotType::parse(kind)?;
        Some(EntryClass { robot: robot.to_owned(), kind: kind.to_owned(), state: state.to_owned() })
    }

    /// The class of an entry; `None` for a type that no snapshot holds.
    pub(crate) fn of(content: &Content) -> Option<EntryClass> {
        EntryClass::new(content.robot_id.as_str(), content.kind.as_str(), content.state.as_str())
    }
}

/// The identity of an execution event within its tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventIdentity {
    pub execution: String,
    pub robot: String,
    pub attempt: u64,
    pub state: ExecutionState,
}

impl EventIdentity {
    /// The execution that the event belongs to.
    pub(crate) fn execution_key(&self) -> ExecutionKey {
        ExecutionKey { execution: self.execution.clone(), robot: self.robot.clone() }
    }
}

impl From<&ExecutionEvent> for EventIdentity {
    fn from(event: &ExecutionEvent) -> EventIdentity {
        EventIdentity {
            execution: event.payload.execution_id.as_str().to_owned(),
            robot: event.robot_id.as_str().to_owned(),
            attempt: event.payload.attempt.get(),
            state: event.state,
        }
    }
}

/// What is wrong with an entry that is found as an event and is none.
pub(crate) fn not_an_event(seq: Seq) -> String {
    format!("entry {seq} is stored as an event of an execution, and is none")
}

/// An execution of a robot within its tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutionKey {
    pub execution: String,
    pub robot: String,
}

/// The id, position and size of an entry, without its payload: not checked against its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub seq: Seq,
    pub id: LedgerId,
    pub created_at: Millis,
    pub payload_bytes: u64,
}

impl From<&EntryRow> for Outline {
    fn from(EntryRow { entry, .. }: &EntryRow) -> Self {
        let payload_bytes = entry.content.payload.len() as u64;
        Outline { seq: entry.seq, id: entry.id.clone(), created_at: entry.created_at, payload_bytes }
    }
}

/// An entry as it is stored, unchecked: for an export, and to find out what is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawEntry {
    /// The text of its columns, canonical unless someone changed them.
    pub canonical: String,
    /// The leaf hash stored with it.
    pub leaf: Vec<u8>,
}
