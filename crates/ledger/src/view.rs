//! One state of a tenant's log: what [`crate::read`] and [`crate::facts`] query, in one read of the database.

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{ClientKey, LedgerId, TenantId};

use crate::accepted::{AcceptedRequest, RequestName};
use crate::clock::Clock;
use crate::entry::StoredEntry;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits::LedgerLimits;
use crate::log;
use crate::position::{Millis, Seq};
use crate::store::{Head, Reads};

/// One state of a tenant's log.
pub struct LogView<'v> {
    pub(crate) reads: &'v mut dyn Reads,
    pub(crate) head: &'v Head,
    pub(crate) limits: &'v LedgerLimits,
    pub(crate) clock: &'v Clock,
}

/// The state of a log when it was read, by the name and root that a signed statement binds itself to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// The log's name.
    pub origin: String,
    /// The sequence number of its newest entry.
    pub seq: Seq,
    /// The root of its tree.
    pub root: Sha256,
    /// The time to judge by, as of [`crate::Position`].
    pub now: Millis,
}

impl LogView<'_> {
    /// The state of the log.
    pub fn place(&self) -> LogPlace {
        let Head { origin, frontier, .. } = self.head;
        let now = self.clock.judging_time(self.head);
        LogPlace { origin: origin.clone(), seq: self.head.last_seq(), root: frontier.root(), now }
    }

    /// The root of the tree of the first entries up to a sequence number; `None` if the log is shorter.
    pub fn root_at(&mut self, seq: Seq) -> Result<Option<Sha256>, LedgerError> {
        if seq > self.head.last_seq() {
            return Ok(None);
        }
        log::root_of(self.reads, self.head, seq.get()).map(Some)
    }

    /// The entry of an id.
    pub fn get(&mut self, id: &LedgerId) -> Result<Option<StoredEntry>, LedgerError> {
        Ok(self.reads.by_id(self.head, id)?.map(|row| row.entry))
    }

    /// The open request of a name, if one was accepted. An older ledger has none.
    pub fn open_request(&mut self, name: &RequestName) -> Result<Option<AcceptedRequest>, LedgerError> {
        if self.reads.check_schema().is_err() {
            return Ok(None);
        }
        let found = self.reads.request(&self.head.tenant_id, name)?;
        Ok(found.filter(AcceptedRequest::is_open))
    }

    /// The entry of a client key.
    pub fn get_by_key(&mut self, key: &ClientKey) -> Result<Option<StoredEntry>, LedgerError> {
        Ok(self.reads.by_key(self.head, key.as_str())?.map(|row| row.entry))
    }
}

impl Ledger {
    /// Runs several queries on one state of the log; `None` if the tenant has no log.
    pub fn view<T>(
        &self,
        tenant: &TenantId,
        mut question: impl FnMut(&mut LogView<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        let Inner { limits, clock, .. } = self.inner();
        self.ask(tenant, |reads, head| question(&mut LogView { reads, head, limits, clock }))
    }
}
