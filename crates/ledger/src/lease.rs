//! Leases: who is at work on what, until when. They live beside the log, never in it, and nothing of a log changes by
//! them but what is appended under one.
//!
//! A name is held by one holder at a time, until it is released or its time is over by the clock that all holders
//! share. Each holder gets a token greater than any before it in the tenant; an append under a lease is written only
//! while its token is the current one, so whoever lost a lease without noticing writes nothing.

use std::fmt;
use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{ExecutionId, Name, TenantId};

use crate::error::LedgerError;
use crate::heart::Heartbeat;
use crate::ledger::Ledger;
use crate::pending::{Answer, Outcome};
use crate::position::{Millis, Seq};
use crate::proposed::NewId;
use crate::store::{ClaimResult, LeaseRequest, LeaseRow, Transaction};
use crate::writer::{Fence, Job, Task};

/// The longest time a lease may be taken or renewed for.
pub const MAX_LEASE: Duration = Duration::from_hours(24);
/// How long a lease that ran out is remembered before its row is removed.
pub(crate) const FORGET_AFTER_MS: i64 = 3_600_000;
/// How many leases are taken from one search for such to the next.
const FORGET_EVERY: i64 = 64;

/// Grows with every lease that is taken in a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(i64);

impl Token {
    pub(crate) fn new(number: i64) -> Token {
        Token(number)
    }

    pub(crate) fn as_i64(self) -> i64 {
        self.0
    }

    /// Leases that ran out long ago are looked for now and then.
    pub(crate) fn is_time_to_forget(self) -> bool {
        self.0 % FORGET_EVERY == 0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A lease that was taken. It says nothing about whether it is still held: the append under it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    tenant_id: TenantId,
    name: Name,
    token: Token,
    ttl: Duration,
}

impl Lease {
    /// The tenant.
    pub fn tenant_id(&self) -> &TenantId {
        &self.tenant_id
    }

    /// What is held.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    fn fence(&self, is_last: bool) -> Fence {
        Fence { name: self.name.clone(), token: self.token, is_last }
    }
}

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// As the holder called itself.
    pub holder: Name,
    /// Its fencing token.
    pub token: Token,
    /// When its time is over unless it renews, by the clock of the leases.
    pub until: Millis,
    /// How long that is from when it was asked.
    pub remaining: Duration,
}

/// What became of asking for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// It is held now by whoever asked.
    Taken(Lease),
    /// Someone else holds it. Wait on a [`crate::Watch`] of the tenant for at most what remains, and ask again.
    Held(Holder),
}

impl LeaseRow {
    /// Whose it is at a time; nobody's when its time is over. A clock that fell back by more than the lease was taken
    /// for would keep a dead holder's alive for long: then it is nobody's either, and the token guards the rest.
    pub(crate) fn holder_at(&self, now: Millis) -> Option<Holder> {
        let remaining = self.until.get().saturating_sub(now.get());
        let is_held = remaining > 0 && remaining <= self.ttl_ms.saturating_mul(2);
        is_held.then(|| Holder {
            holder: self.holder.clone(),
            token: self.token,
            until: self.until,
            remaining: Duration::from_millis(u64::try_from(remaining).unwrap_or_default()),
        })
    }
}

impl Ledger {
    /// Takes a lease for a time, or says who holds it. `holder` is for people: the same holder asking twice is two.
    pub fn take_lease(
        &self,
        tenant: &TenantId,
        name: &Name,
        holder: &Name,
        ttl: Duration,
    ) -> Result<Claim, LedgerError> {
        // It is overtaken only by what it was told to look out for.
        self.claim(tenant, name, holder, ttl, None)?.ok_or(LedgerError::Closed)
    }

    /// The same, unless the log has an entry of this execution after this place; then `None`.
    pub fn take_lease_unless(
        &self,
        tenant: &TenantId,
        name: &Name,
        holder: &Name,
        ttl: Duration,
        overtaken: (&ExecutionId, Seq),
    ) -> Result<Option<Claim>, LedgerError> {
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
    ) -> Result<Option<Claim>, LedgerError> {
        let ttl_ms = checked_ms(ttl)?;
        let wanted = LeaseRequest { name: name.clone(), holder: holder.clone(), ttl_ms, unless };
        let changed = self.change_lease(tenant, Change::Take(wanted))?;
        Ok(match changed {
            Changed::Claimed(ClaimResult::Taken(token)) => {
                Some(Claim::Taken(Lease { tenant_id: tenant.clone(), name: name.clone(), token, ttl }))
            }
            Changed::Claimed(ClaimResult::Held(holder)) => Some(Claim::Held(holder)),
            Changed::Claimed(ClaimResult::Overtaken) | Changed::Done => None,
        })
    }

    /// Lets the writing thread change a lease: it goes into a commit with whatever else waits.
    fn change_lease(&self, tenant: &TenantId, change: Change) -> Result<Changed, LedgerError> {
        let (answer, pending) = Answer::pair();
        self.send(Job { tenant_id: tenant.clone(), task: Task::Lease(change, answer) })?;
        pending.wait()
    }

    /// Who holds a lease, if anyone does.
    pub fn lease_holder(&self, tenant: &TenantId, name: &Name) -> Result<Option<Holder>, LedgerError> {
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

    /// Holds a lease for its whole time again, from now. One that ran out and that nobody took is held again.
    pub fn renew_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let Lease { tenant_id, name, token, ttl } = lease;
        let renewal = Change::Renew { name: name.clone(), token: *token, ttl_ms: checked_ms(*ttl)? };
        self.change_lease(tenant_id, renewal).map(|_| ())
    }

    /// Gives a lease back; others may take it at once. A lease that was lost is nobody's to give, and left alone.
    pub fn release_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let Lease { tenant_id, name, token, .. } = lease;
        self.change_lease(tenant_id, Change::Release { name: name.clone(), token: *token }).map(|_| ())
    }

    /// Appends as [`Ledger::append_as`], but only while the lease is held: [`LedgerError::LeaseLost`] where someone
    /// else has taken it since, or it was released.
    pub fn append_under(&self, lease: &Lease, batch: Vec<(Option<NewId>, Draft)>) -> Outcome {
        self.append_fenced(&lease.tenant_id, batch, Some(lease.fence(false)))
    }

    /// The same, and releases the lease in the same transaction. Where nothing was written it is held as before.
    pub fn append_and_release(&self, lease: &Lease, batch: Vec<(Option<NewId>, Draft)>) -> Outcome {
        self.append_fenced(&lease.tenant_id, batch, Some(lease.fence(true)))
    }

    /// Renews a lease until the heartbeat is dropped or the lease is lost.
    pub fn keep_lease(&self, lease: &Lease) -> Result<Heartbeat, LedgerError> {
        self.inner().heart.keep(self, lease)
    }
}

/// What the writing thread is to do with a lease.
#[derive(Debug)]
pub(crate) enum Change {
    Take(LeaseRequest),
    Renew { name: Name, token: Token, ttl_ms: i64 },
    Release { name: Name, token: Token },
}

/// What it came to.
#[derive(Debug)]
pub(crate) enum Changed {
    Claimed(ClaimResult),
    Done,
}

/// Changes a lease. The inner error is the caller's own; the outer one ends the transaction.
pub(crate) fn apply(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    change: &Change,
) -> Result<Result<Changed, LedgerError>, LedgerError> {
    match change {
        Change::Take(wanted) => Ok(Ok(Changed::Claimed(transaction.claim_lease(tenant, wanted)?))),
        Change::Renew { name, token, ttl_ms } => {
            let row = match current(transaction.lease(tenant, name)?, name, *token) {
                Ok(row) => row,
                Err(lost) => return Ok(Err(lost)),
            };
            let until = Millis::new(transaction.lease_time()?.get() + ttl_ms);
            transaction.extend_lease(tenant, &LeaseRow { until, ..row })?;
            Ok(Ok(Changed::Done))
        }
        Change::Release { name, token } => {
            transaction.drop_leases(tenant, &[(name, *token)])?;
            Ok(Ok(Changed::Done))
        }
    }
}

/// The row of a lease, if the token is the current one.
pub(crate) fn current(row: Option<LeaseRow>, name: &Name, token: Token) -> Result<LeaseRow, LedgerError> {
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
