//! The server processes that use a ledger, and the digest of the settings that each decides by: next to the log, like leases. Processes
//! with different settings must not share a ledger, so one with another digest is refused while others are alive, or
//! replaces them, and they learn of it when they renew.

use std::time::Duration;

use crealeph_contracts::scalar::Name;

use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::position::Millis;
use crate::store::Transaction;

/// A process that uses the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// A name that no other process has.
    pub name: Name,
    /// Its name for people.
    pub holder: Name,
    /// The digest of the settings that it decides by.
    pub digest: String,
    /// The digests of the parts of those, as its own version wrote them.
    pub sections: String,
}

/// A process as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub process: ServerProcess,
    /// Others with another digest came to replace this one.
    pub is_replaced: bool,
    pub until: Millis,
    pub ttl_ms: i64,
}

impl ProcessRow {
    fn is_alive(&self, now: Millis) -> bool {
        let remaining = self.until.get().saturating_sub(now.get());
        remaining > 0 && remaining <= self.ttl_ms.saturating_mul(2)
    }
}

/// Whether a process may use the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Membership {
    /// It may, until its time is over.
    Member,
    /// It may not: this process, which is alive, has another digest.
    Other(Box<ServerProcess>),
}

impl Ledger {
    /// Registers a process, or renews it, for a time. With `replaces` the processes with other digests are asked to end, and do not
    /// prevent this one from registering.
    pub fn enter_process(
        &self,
        process: &ServerProcess,
        ttl: Duration,
        replaces: bool,
    ) -> Result<Membership, LedgerError> {
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let mut membership = Membership::Member;
        self.write_shared(&mut |transaction| {
            membership = enter(transaction, process, ttl_ms, replaces)?;
            Ok(())
        })?;
        Ok(membership)
    }

    /// Removes a process.
    pub fn leave_processes(&self, process: &ServerProcess) -> Result<(), LedgerError> {
        self.write_shared(&mut |transaction| transaction.drop_process(&process.name))
    }
}

fn enter(
    transaction: &mut dyn Transaction,
    process: &ServerProcess,
    ttl_ms: i64,
    replaces: bool,
) -> Result<Membership, LedgerError> {
    let rows = transaction.locked_processes()?;
    let now = transaction.lease_time()?;
    let (alive, gone): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_alive(now));
    for row in gone {
        transaction.drop_process(&row.process.name)?;
    }
    let own = alive.iter().find(|row| row.process.name == process.name);
    let is_replaced = own.is_some_and(|row| row.is_replaced);
    let mut others = alive.iter().filter(|row| row.process.digest != process.digest);
    if !replaces && let Some(other) = others.clone().find(|row| is_replaced || !row.is_replaced) {
        return Ok(Membership::Other(Box::new(other.process.clone())));
    }
    for other in others.by_ref().filter(|_| replaces) {
        transaction.put_process(&ProcessRow { is_replaced: true, ..other.clone() })?;
    }
    let until = Millis::new(now.get().saturating_add(ttl_ms));
    transaction.put_process(&ProcessRow { process: process.clone(), is_replaced, until, ttl_ms })?;
    Ok(Membership::Member)
}
