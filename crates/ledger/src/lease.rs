//! Leases: who works on what, until when. They are stored next to the log, never in it, and do not change it; entries may be
//! appended under one.
//!
//! A name is held by one holder at a time, until it is released or expires by the clock that all holders share. Each holder gets a token
//! greater than any before it in the tenant; an append under a lease is only written
//! while its token is the current one, so a holder that lost its lease without noticing writes nothing.

use std::fmt;
use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{ExecutionId, Name, TenantId};

use crate::error::LedgerError;
use crate::heart::Heartbeat;
use crate::ledger::Ledger;
use crate::pending::{AnswerSender, AppendResult};
use crate::position::{Millis, Seq};
use crate::proposed::NewId;
use crate::read::Cursor;
use crate::store::{ClaimResult, LeaseRequest, LeaseRow, Transaction};
use crate::subscription::{self, SubscriptionChange};
use crate::writer::{Fence, Job, JobTask};

/// The longest time for which a lease may be taken or renewed.
pub const MAX_LEASE: Duration = Duration::from_hours(24);
/// How long an expired lease is kept before its row is removed.
pub(crate) const FORGET_AFTER_MS: i64 = 3_600_000;
/// How many leases are taken between two searches for expired ones.
const FORGET_EVERY: i64 = 64;

/// Grows with every lease that is taken in a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseToken(i64);

impl LeaseToken {
    pub(crate) fn new(number: i64) -> LeaseToken {
        LeaseToken(number)
    }

    /// The token that a cursor names.
    pub fn from_cursor(cursor: Cursor) -> LeaseToken {
        LeaseToken(cursor.seq().as_i64())
    }

    /// A cursor that names it, for a list in the order of tokens.
    pub fn cursor(self) -> Cursor {
        Cursor::after(Seq::from_i64(self.0).unwrap_or(Seq::MAX))
    }

    pub(crate) fn as_i64(self) -> i64 {
        self.0
    }

    /// Whether to look for leases that expired long ago, now that this one was taken.
    pub(crate) fn is_time_to_forget(self) -> bool {
        self.0 % FORGET_EVERY == 0
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A lease that was taken. Whether it is still held is checked by the append under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    tenant_id: TenantId,
    name: Name,
    token: LeaseToken,
    ttl: Duration,
}

impl Lease {
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn tenant_id(&self) -> &TenantId {
        &self.tenant_id
    }

    /// The fencing token.
    pub fn token(&self) -> LeaseToken {
        self.token
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn fence(&self, is_last: bool) -> Fence {
        Fence { name: self.name.clone(), token: self.token, is_last }
    }
}

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The name that the holder gave itself.
    pub holder: Name,
    /// Its fencing token.
    pub token: LeaseToken,
    /// When it expires unless it is renewed, by the clock of the leases.
    pub until: Millis,
    /// The remaining time at the moment of the query.
    pub remaining: Duration,
}

/// The result of requesting a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum LeaseClaim {
    /// The caller holds it now.
    Taken(Lease),
    /// Someone else holds it. Wait on a [`crate::LogWatch`] of the tenant for at most the remaining time, and ask again.
    Held(LeaseHolder),
}

impl LeaseRow {
    /// Its holder at a time; `None` if it has expired. A clock that went back by more than the lease's time would keep a
    /// dead holder's lease alive for long: then it counts as expired too, and the token protects the rest.
    pub(crate) fn holder_at(&self, now: Millis) -> Option<LeaseHolder> {
        let remaining = self.until.get().saturating_sub(now.get());
        let is_held = remaining > 0 && remaining <= self.ttl_ms.saturating_mul(2);
        is_held.then(|| LeaseHolder {
            holder: self.holder.clone(),
            token: self.token,
            until: self.until,
            remaining: Duration::from_millis(remaining.max(0).cast_unsigned()),
        })
    }
}

impl Ledger {
    /// Takes a lease for a time, or says who holds it. `holder` is for people: two requests of the same holder are two holders.
    pub fn take_lease(
        &self,
        tenant: &TenantId,
        name: &Name,
        holder: &Name,
        ttl: Duration,
    ) -> Result<LeaseClaim, LedgerError> {
        // Only a request with a condition can be overtaken.
        self.claim(tenant, name, holder, ttl, None)?.ok_or(LedgerError::Closed)
    }

    /// The same, unless the log has an entry of this execution after this sequence number; then `None`.
    pub fn take_lease_unless(
        &self,
        tenant: &TenantId,
        name: &Name,
        holder: &Name,
        ttl: Duration,
        overtaken: (&ExecutionId, Seq),
    ) -> Result<Option<LeaseClaim>, LedgerError> {
        let (execution, after) = overtaken;
        self.claim(tenant, name, holder, ttl, Some((execution.clone(), after)))
    }

    fn claim(
        &self,
        tenant: &TenantId,
        name: &Name,
        holder: &Name,
        ttl: Duration,
        unless: Option<(ExecutionId, Seq)>,
    ) -> Result<Option<LeaseClaim>, LedgerError> {
        let ttl_ms = checked_ms(ttl)?;
        let wanted = LeaseRequest { name: name.clone(), holder: holder.clone(), ttl_ms, unless };
        let changed = self.change_lease(tenant, LeaseChange::Take(wanted))?;
        Ok(match changed {
            LeaseAnswer::Claimed(ClaimResult::Taken(token)) => {
                Some(LeaseClaim::Taken(Lease { tenant_id: tenant.clone(), name: name.clone(), token, ttl }))
            }
            LeaseAnswer::Claimed(ClaimResult::Held(holder)) => Some(LeaseClaim::Held(holder)),
            LeaseAnswer::Claimed(ClaimResult::Overtaken) | LeaseAnswer::Done => None,
        })
    }

    /// Lets the writing thread change a lease: it is committed with the other jobs that wait.
    pub(crate) fn change_lease(
        &self,
        tenant: &TenantId,
        change: LeaseChange,
    ) -> Result<LeaseAnswer, LedgerError> {
        let (answer, pending) = AnswerSender::pair();
        self.send(Job { tenant_id: tenant.clone(), task: JobTask::Lease(change, answer) })?;
        pending.wait()
    }

    /// Who holds a lease, if anyone does.
    pub fn lease_holder(&self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseHolder>, LedgerError> {
        let mut holder = None;
        self.inner().backend.read(Some(tenant), &mut |reads| {
            let row = reads.lease(tenant, name)?;
            if let Some(row) = row {
                holder = row.holder_at(reads.lease_time()?);
            }
            Ok(())
        })?;
        Ok(holder)
    }

    /// Renews a lease for its whole time, from now. An expired lease that no one took is held again.
    pub fn renew_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let Lease { tenant_id, name, token, ttl } = lease;
        let renewal = LeaseChange::Renew { name: name.clone(), token: *token, ttl_ms: checked_ms(*ttl)? };
        self.change_lease(tenant_id, renewal).map(|_| ())
    }

    /// Releases a lease; others may take it at once. A lease that was lost is left alone.
    pub fn release_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let Lease { tenant_id, name, token, .. } = lease;
        self.change_lease(tenant_id, LeaseChange::Release { name: name.clone(), token: *token }).map(|_| ())
    }

    /// Appends as [`Ledger::append_as`], but only while the lease is held: [`LedgerError::LeaseLost`] if someone else has
    /// taken it since, or it was released.
    pub fn append_under(&self, lease: &Lease, batch: Vec<(Option<NewId>, Draft)>) -> AppendResult {
        self.append_fenced(&lease.tenant_id, batch, Some(lease.fence(false)), None)
    }

    /// Renews a lease until the heartbeat is dropped or the lease is lost.
    pub fn keep_lease(&self, lease: &Lease) -> Result<Heartbeat, LedgerError> {
        self.inner().heart.keep(self, lease)
    }
}

/// What the writing thread does with a lease.
#[derive(Debug)]
pub(crate) enum LeaseChange {
    Take(LeaseRequest),
    Renew {
        name: Name,
        token: LeaseToken,
        ttl_ms: i64,
    },
    Release {
        name: Name,
        token: LeaseToken,
    },
    /// Not a lease, but also stored next to the log, and some of it under one.
    Subscription(SubscriptionChange),
}

impl LeaseChange {
    /// Whether it need not survive an event that ends the holders of leases.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            LeaseChange::Subscription(change) => matches!(change, SubscriptionChange::Move(_)),
            _ => true,
        }
    }
}

/// The result.
#[derive(Debug)]
pub(crate) enum LeaseAnswer {
    Claimed(ClaimResult),
    Done,
}

/// Changes a lease. The inner error is the caller's own; the outer one ends the transaction.
pub(crate) fn apply(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    change: &LeaseChange,
) -> Result<Result<LeaseAnswer, LedgerError>, LedgerError> {
    match change {
        LeaseChange::Take(wanted) => Ok(Ok(LeaseAnswer::Claimed(transaction.claim_lease(tenant, wanted)?))),
        LeaseChange::Renew { name, token, ttl_ms } => {
            let row = match current(transaction.lease(tenant, name)?, name, *token) {
                Ok(row) => row,
                Err(lost) => return Ok(Err(lost)),
            };
            let until = Millis::new(transaction.lease_time()?.get() + ttl_ms);
            transaction.extend_lease(tenant, &LeaseRow { until, ..row })?;
            Ok(Ok(LeaseAnswer::Done))
        }
        LeaseChange::Release { name, token } => {
            transaction.drop_leases(tenant, &[(name, *token)])?;
            Ok(Ok(LeaseAnswer::Done))
        }
        LeaseChange::Subscription(change) => subscription::apply(transaction, tenant, change),
    }
}

/// The row of a lease, if the token is the current one.
pub(crate) fn current(
    row: Option<LeaseRow>,
    name: &Name,
    token: LeaseToken,
) -> Result<LeaseRow, LedgerError> {
    match row {
        Some(row) if row.token == token => Ok(row),
        other => {
            let holder = other.map(|row| row.holder.as_str().to_owned());
            Err(LedgerError::LeaseLost { name: name.as_str().to_owned(), holder })
        }
    }
}

fn checked_ms(ttl: Duration) -> Result<i64, LedgerError> {
    match i64::try_from(ttl.as_millis()) {
        Ok(ttl_ms) if ttl_ms > 0 && ttl <= MAX_LEASE => Ok(ttl_ms),
        _ => Err(LedgerError::Beyond {
            what: "the lease's time in milliseconds",
            found: usize::try_from(ttl.as_millis()).unwrap_or(usize::MAX),
            limit: MAX_LEASE.as_millis() as usize,
        }),
    }
}
