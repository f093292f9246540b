//! For a writer that needs the ids of its entries before they are written, and the position in the log at which it read.
//! An id is created here and used once; a client cannot choose one.

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{LedgerId, RobotId, TenantId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, SnapshotFacts};

use crate::accepted::RequestName;
#[cfg(doc)]
use crate::error::EntryRefusal;
use crate::error::LedgerError;
use crate::identity::IdSource;
use crate::ledger::Ledger;
use crate::pending::{AnswerSender, AppendResult};
use crate::position::{Millis, Seq};
use crate::writer::{Batch, Fence, Job};

/// An id that no entry has yet: a UUID of version 7. Only the ledger creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewId(LedgerId);

impl NewId {
    /// The id.
    pub fn as_id(&self) -> &LedgerId {
        &self.0
    }
}

/// The state of a tenant's log when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The sequence number of its newest entry.
    pub seq: Seq,
    /// The time to judge by: the true time by the database's clock, else the ledger's, and not before the newest entry unless that
    /// is dated far ahead.
    pub now: Millis,
}

impl Ledger {
    /// Creates an id for an entry that is to be written.
    pub fn new_id(&self) -> Result<NewId, LedgerError> {
        IdSource::fresh(self.now()).map(NewId)
    }

    /// The time by the ledger's clock.
    pub fn now(&self) -> Millis {
        self.inner().clock.now()
    }

    /// Appends a batch of CreAleph's own, completely or not at all, some of it under ids created before; refused if one is taken.
    /// Only this function writes reserved types and keys.
    pub fn append_as(&self, tenant: &TenantId, batch: Vec<(Option<NewId>, Draft)>) -> AppendResult {
        self.append_fenced(tenant, batch, None, None)
    }

    /// The same, if the log has not grown since it was read; else the batch is refused as [`EntryRefusal::Moved`], so that
    /// the decision from the log and the writes for it are one step.
    pub fn append_at(
        &self,
        tenant: &TenantId,
        read_at: Seq,
        batch: Vec<(Option<NewId>, Draft)>,
    ) -> AppendResult {
        self.append_prepared(tenant, batch, |batch| {
            if let Some(first) = batch.entries.first_mut() {
                first.after = Some(read_at);
            }
        })
    }

    pub(crate) fn append_fenced(
        &self,
        tenant: &TenantId,
        batch: Vec<(Option<NewId>, Draft)>,
        fence: Option<Fence>,
        settles: Option<RequestName>,
    ) -> AppendResult {
        self.append_prepared(tenant, batch, |batch| (batch.fence, batch.settles) = (fence, settles))
    }

    fn append_prepared(
        &self,
        tenant: &TenantId,
        batch: Vec<(Option<NewId>, Draft)>,
        prepare: impl FnOnce(&mut Batch),
    ) -> AppendResult {
        let (ids, drafts): (Vec<Option<NewId>>, Vec<Draft>) = batch.into_iter().unzip();
        let (answer, pending) = AnswerSender::pair();
        let mut batch = self.batch(tenant, drafts, answer)?;
        prepare(&mut batch);
        for (entry, id) in batch.entries.iter_mut().zip(ids) {
            entry.id = id.map(|NewId(id)| id);
        }
        self.send(Job::append(tenant, batch))?;
        pending.wait()
    }

    /// The facts of a snapshot, with the position at which they were read; up to an earlier sequence number if one is given.
    /// `None` if the tenant has no log.
    pub fn facts_up_to(
        &self,
        tenant: &TenantId,
        robot: &RobotId,
        up_to: Option<Seq>,
        rules: &CoherenceRules,
        derivation: Derivation,
    ) -> Result<Option<(SnapshotFacts, Position)>, LedgerError> {
        self.view(tenant, |view| view.facts_up_to(robot, up_to, rules, derivation))
    }
}
