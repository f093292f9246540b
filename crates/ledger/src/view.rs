//! One state of a tenant's log: what [`crate::read`] and [`crate::facts`] ask about it, in one read of the database.

use crealeph_contracts::scalar::{ClientKey, LedgerId, TenantId};

use crate::clock::Clock;
use crate::entry::StoredEntry;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits::LedgerLimits;
use crate::store::{Head, Reads};

/// One state of a tenant's log.
pub struct LogView<'v> {
    pub(crate) reads: &'v mut dyn Reads,
    pub(crate) head: &'v Head,
    pub(crate) limits: &'v LedgerLimits,
    pub(crate) clock: &'v Clock,
}

impl LogView<'_> {
    /// The entry of an id.
    pub fn get(&mut self, id: &LedgerId) -> Result<Option<StoredEntry>, LedgerError> {
        Ok(self.reads.by_id(self.head, id)?.map(|row| row.entry))
    }

    /// The entry of a client key.
    pub fn get_by_key(&mut self, key: &ClientKey) -> Result<Option<StoredEntry>, LedgerError> {
        Ok(self.reads.by_key(self.head, key.as_str())?.map(|row| row.entry))
    }
}

impl Ledger {
    /// Asks several questions about one state of the log; `None` if the tenant has no log.
    pub fn view<T>(
        &self,
        tenant: &TenantId,
        mut question: impl FnMut(&mut LogView<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        let Inner { limits, clock, .. } = self.inner();
        self.ask(tenant, |reads, head| question(&mut LogView { reads, head, limits, clock }))
    }
}
