//! A cache of snapshots: while nothing is written, a robot's snapshot is the one of the previous answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use crealeph_contracts::scalar::{RobotId, TenantId};

/// How many bytes are remembered.
const MAX_BYTES: usize = 16 << 20;

/// The newest snapshot of each requested robot.
#[derive(Debug, Default)]
pub(crate) struct NewestSnapshots(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Each with the ledger's mark from before it was derived.
    by_robot: HashMap<(TenantId, RobotId), (i64, Bytes)>,
    bytes: usize,
}

impl NewestSnapshots {
    /// The snapshot of a robot, if nothing was written since it was derived.
    pub(crate) fn get(&self, of: &(TenantId, RobotId), mark: i64) -> Option<Bytes> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_robot.get(of).filter(|(then, _)| *then == mark).map(|(_, document)| document.clone())
    }

    /// Remembers a snapshot that was derived after the ledger had this mark.
    pub(crate) fn put(&self, of: (TenantId, RobotId), mark: i64, document: Bytes) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.bytes.saturating_add(document.len()) > MAX_BYTES {
            *known = Known::default();
        }
        known.bytes += document.len();
        if let Some((_, before)) = known.by_robot.insert(of, (mark, document)) {
            known.bytes = known.bytes.saturating_sub(before.len());
        }
    }
}
