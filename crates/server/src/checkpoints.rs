//! The newest checkpoint of each log, so that a log that has not grown is not signed again for each request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{Ledger, LedgerError};

/// How long a checkpoint is answered again: a key that was added signs from then on.
const MAX_AGE: Duration = Duration::from_secs(60);
/// How many logs are remembered.
const MAX_LOGS: usize = 1_024;

#[derive(Debug)]
struct SignedAt {
    size: u64,
    note: String,
    at: Instant,
}

/// The newest checkpoints that this server signed.
#[derive(Debug, Default)]
pub(crate) struct NewestCheckpoints(Mutex<HashMap<TenantId, SignedAt>>);

impl NewestCheckpoints {
    /// The signed note of a log as it is now: the newest one if it says that, else a new one.
    pub(crate) fn note(&self, ledger: &Ledger, tenant: &TenantId) -> Result<String, LedgerError> {
        let size = ledger.last_seq(tenant)?.get();
        {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(newest) = known.get(tenant).filter(|newest| newest.says(size)) {
                return Ok(newest.note.clone());
            }
        }
        let signed = ledger.checkpoint(tenant)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_LOGS {
            known.clear();
        }
        let newest = SignedAt { size: signed.size, note: signed.note.clone(), at: Instant::now() };
        known.insert(tenant.clone(), newest);
        Ok(signed.note)
    }
}

impl SignedAt {
    fn says(&self, size: u64) -> bool {
        self.size == size && self.at.elapsed() < MAX_AGE
    }
}
