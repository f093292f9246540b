//! A snapshot as people are shown it: derived here, or from a server's document.

use crealeph_contracts::entry::Entry;
use crealeph_contracts::json::{Limits, Node, NodeKind, parse};
use crealeph_decision::snapshot::{PerType, Snapshot, SnapshotType};

/// A snapshot in short.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotOutline {
    /// The robot.
    pub robot_id: String,
    /// When its newest entry was recorded.
    pub snapshot_at: String,
    /// Whether it is coherent.
    pub status: String,
    /// Why.
    pub reason: String,
    /// The newest entry of each type: its id, and when it was true.
    pub newest: PerType<Option<(String, String)>>,
    /// How many tasks are listed.
    pub tasks: usize,
    /// How many entries may be depended on.
    pub lineage: usize,
}

fn place_of(entry: &Entry) -> (String, String) {
    (entry.id.to_string(), entry.true_at().as_str().to_owned())
}

impl SnapshotOutline {
    /// The outline of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { facts, snapshot_at, coherence } = snapshot;
        let mut newest = PerType::default();
        for kind in SnapshotType::ALL {
            *newest.get_mut(kind) = facts.newest.get(kind).as_ref().map(|found| place_of(&found.entry));
        }
        SnapshotOutline {
            robot_id: facts.robot_id.to_string(),
            snapshot_at: snapshot_at.as_str().to_owned(),
            status: coherence.status.as_str().to_owned(),
            reason: coherence.reason.clone(),
            newest,
            tasks: facts.tasks.len(),
            lineage: facts.lineage.len(),
        }
    }

    /// The outline of a snapshot's document.
    ///
    /// # Errors
    /// With what is wrong first.
    pub fn read(text: &str) -> Result<Self, String> {
        let (document, faults) = parse(text.as_bytes(), &Limits::own(text.len()));
        match (document, faults.first()) {
            (Some(document), None) => Self::read_from(document.root()),
            (_, fault) => Err(fault.map_or("it is not JSON".to_owned(), |fault| fault.message.clone())),
        }
    }

    fn read_from(root: Node<'_>) -> Result<Self, String> {
        let words = |node: Option<Node<'_>>, name: &str| {
            let text = node.and_then(|node| node.member(name)).and_then(Node::string);
            text.map(|text| text.into_owned()).ok_or_else(|| format!("the snapshot has no `{name}`"))
        };
        let count = |node: Option<Node<'_>>| node.map_or(0, |list| list.elements().count());
        let mut newest = PerType::default();
        for kind in SnapshotType::ALL {
            let node = root.member(kind.shown_as()).filter(|node| node.kind() != NodeKind::Null);
            let entry = node.map(Entry::read_from).transpose().map_err(|violations| {
                violations.first().map_or("an entry cannot be read".to_owned(), ToString::to_string)
            })?;
            *newest.get_mut(kind) = entry.as_ref().map(place_of);
        }
        let coherence = root.member("coherence");
        Ok(SnapshotOutline {
            robot_id: words(Some(root), "robotId")?,
            snapshot_at: words(Some(root), "snapshotAt")?,
            status: words(coherence, "status")?,
            reason: words(coherence, "reason")?,
            newest,
            tasks: count(root.member("tasks")),
            lineage: count(root.member("lineage").and_then(|lineage| lineage.member("dependsOnLedgerIds"))),
        })
    }
}
