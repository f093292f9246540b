//! Leases: who is at work on what, until when. They live beside the log, never in it, and nothing of a log changes by
//! them but what is appended under one.
//!
//! A name is held by one holder at a time, until it is released or its time is over by the clock that all holders
//! share. Each holder gets a token greater than any before it in the tenant; an append under a lease is written only
//! while its token is the current one, so whoever lost a lease without noticing writes nothing.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{Name, TenantId};

use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::pending::Outcome;
use crate::position::Millis;
use crate::proposed::NewId;
use crate::store::LeaseRow;
use crate::writer::Fence;

/// The longest time a lease may be taken or renewed for.
pub const MAX_LEASE: Duration = Duration::from_hours(24);
/// How long a lease that ran out is remembered before its row is removed.
const FORGET_AFTER_MS: i64 = 3_600_000;
/// A heartbeat renews this often within the time of its lease.
const BEATS: u32 = 4;

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
    fn holder_at(&self, now: Millis) -> Option<Holder> {
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
        let ttl_ms = checked_ms(ttl)?;
        let mut claim = None;
        self.write_lease(tenant, &mut |transaction| {
            // Whoever takes the next token waits for the one before it, so only one finds the name free.
            let token = transaction.next_token(tenant)?;
            let now = transaction.time(&self.inner().clock)?;
            let held = transaction.lease(tenant, name)?.and_then(|row| row.holder_at(now));
            claim = Some(match held {
                Some(holder) => Claim::Held(holder),
                None => {
                    let until = Millis::new(now.get() + ttl_ms);
                    let row = LeaseRow { name: name.clone(), holder: holder.clone(), token, until, ttl_ms };
                    transaction.forget_leases(tenant, Millis::new(now.get() - FORGET_AFTER_MS))?;
                    transaction.put_lease(tenant, &row)?;
                    Claim::Taken(Lease { tenant_id: tenant.clone(), name: name.clone(), token, ttl })
                }
            });
            Ok(())
        })?;
        claim.ok_or(LedgerError::Closed)
    }

    /// Who holds a lease, if anyone does.
    pub fn lease_holder(&self, tenant: &TenantId, name: &Name) -> Result<Option<Holder>, LedgerError> {
        let mut holder = None;
        self.inner().backend.read(Some(tenant), &mut |reads| {
            let row = reads.lease(tenant, name)?;
            if let Some(row) = row {
                holder = row.holder_at(reads.time(&self.inner().clock)?);
            }
            Ok(())
        })?;
        Ok(holder)
    }

    /// Holds a lease for its whole time again, from now. One that ran out and that nobody took is held again.
    pub fn renew_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let ttl_ms = checked_ms(lease.ttl)?;
        self.write_lease(&lease.tenant_id, &mut |transaction| {
            let row = transaction.lease(&lease.tenant_id, &lease.name)?;
            let row = current(row, &lease.name, lease.token)?;
            let until = Millis::new(transaction.time(&self.inner().clock)?.get() + ttl_ms);
            transaction.put_lease(&lease.tenant_id, &LeaseRow { until, ..row })
        })
    }

    /// Gives a lease back; others may take it at once. A lease that was lost is nobody's to give, and left alone.
    pub fn release_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.write_lease(&lease.tenant_id, &mut |transaction| {
            transaction.drop_lease(&lease.tenant_id, &lease.name, lease.token)
        })?;
        self.announce(&lease.tenant_id);
        Ok(())
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

    /// Renews a lease from a thread of its own until the heartbeat is dropped or the lease is lost.
    pub fn keep_lease(&self, lease: &Lease) -> Result<Heartbeat, LedgerError> {
        let pulse = Arc::new(Pulse::default());
        let (ledger, lease, own) = (self.clone(), lease.clone(), Arc::clone(&pulse));
        let beat = move || own.beat(&ledger, &lease);
        let thread = std::thread::Builder::new().name("ledger-heartbeat".to_owned()).spawn(beat);
        let thread = thread.map_err(|error| self.failed(&error))?;
        Ok(Heartbeat { pulse, thread: Some(thread) })
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

#[derive(Debug, Default)]
struct Pulse {
    state: Mutex<PulseState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct PulseState {
    is_over: bool,
    is_lost: bool,
}

impl Pulse {
    fn beat(&self, ledger: &Ledger, lease: &Lease) {
        let pause = lease.ttl / BEATS;
        loop {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.ended.wait_timeout_while(state, pause, |state| !state.is_over);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_over {
                return;
            }
            // Other trouble may pass, and if it does not, the append meets it too.
            if matches!(ledger.renew_lease(lease), Err(LedgerError::LeaseLost { .. })) {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).is_lost = true;
                return;
            }
        }
    }
}

/// Renews a lease while it lives.
#[derive(Debug)]
#[must_use = "the lease is renewed only while this lives"]
pub struct Heartbeat {
    pulse: Arc<Pulse>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Whether the lease was found to be someone else's; going on is then in vain.
    pub fn is_lost(&self) -> bool {
        self.pulse.state.lock().unwrap_or_else(PoisonError::into_inner).is_lost
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.pulse.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.pulse.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // A heartbeat that panicked has stopped, which is all that is wanted.
            let _ = thread.join();
        }
    }
}
