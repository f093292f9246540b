//! Several questions to one state of a tenant's log, in one read of the database.

use crealeph_contracts::scalar::{ClientKey, RobotId, TenantId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, SnapshotFacts};

use crate::clock::Clock;
use crate::entry::Stored;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits::Limits;
use crate::position::Seq;
use crate::proposed::Position;
use crate::read::{self, Cursor, Filter, Order, Page};
use crate::store::{Head, Reads};

/// A tenant's log as it stands while it is looked at.
pub struct View<'v> {
    reads: &'v mut dyn Reads,
    head: &'v Head,
    limits: &'v Limits,
    clock: &'v Clock,
}

impl View<'_> {
    /// The entry of a client key.
    pub fn get_by_key(&mut self, key: &ClientKey) -> Result<Option<Stored>, LedgerError> {
        Ok(self.reads.by_key(self.head, key.as_str())?.map(|row| row.entry))
    }

    /// A page of a list.
    pub fn list(
        &mut self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, LedgerError> {
        read::list(self.reads, self.head, filter, order, cursor, limit, self.limits)
    }

    /// What a snapshot is derived from, and the place it was read at; up to an earlier place where one is given.
    pub fn facts_up_to(
        &mut self,
        robot: &RobotId,
        up_to: Option<Seq>,
        rules: &CoherenceRules,
        derivation: Derivation,
    ) -> Result<(SnapshotFacts, Position), LedgerError> {
        let seq = up_to.unwrap_or(self.head.last_seq()).min(self.head.last_seq());
        let facts = read::facts_up_to(self.reads, self.head, robot, seq, rules, derivation)?;
        let now = self.clock.judging_time(self.head);
        Ok((facts, Position { seq, now }))
    }
}

impl Ledger {
    /// Asks several things of one state of the log; `None` where the tenant has no log.
    pub fn view<T>(
        &self,
        tenant: &TenantId,
        mut question: impl FnMut(&mut View<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        let Inner { limits, clock, .. } = self.inner();
        self.ask(tenant, |reads, head| question(&mut View { reads, head, limits, clock }))
    }
}
