//! What an entry's lineage reaches, followed to the end: the newest entry of each of the six snapshot types. It is
//! computed once, from the reach of what the entry depends on, and stored with the entry, so that nobody walks.

use crealeph_decision::snapshot::{PerType, SnapshotType};

use crate::position::Seq;

/// The newest entry of each snapshot type that a lineage reaches, by its sequence number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach(PerType<Option<Seq>>);

impl Reach {
    /// The newest entry of a type.
    pub fn get(&self, kind: SnapshotType) -> Option<Seq> {
        *self.0.get(kind)
    }

    /// Takes in an entry that is depended on, and all that it reaches itself.
    pub fn extend(&mut self, kind: &str, seq: Seq, reach: &Reach) {
        for each in SnapshotType::ALL {
            self.raise(each, reach.get(each));
        }
        if let Some(own) = SnapshotType::parse(kind) {
            self.raise(own, Some(seq));
        }
    }

    fn raise(&mut self, kind: SnapshotType, seq: Option<Seq>) {
        let newest = self.0.get_mut(kind);
        *newest = (*newest).max(seq);
    }

    /// The six, in the order of [`SnapshotType::ALL`], as the databases hold them.
    pub(crate) fn columns(&self) -> [Option<i64>; 6] {
        SnapshotType::ALL.map(|kind| self.get(kind).map(Seq::as_i64))
    }

    pub(crate) fn from_columns(columns: [Option<i64>; 6]) -> Reach {
        let mut reach = Reach::default();
        for (kind, column) in SnapshotType::ALL.into_iter().zip(columns) {
            reach.raise(kind, column.and_then(Seq::from_i64));
        }
        reach
    }
}
