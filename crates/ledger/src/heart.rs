//! Renews leases until they are dropped: one thread for all of a ledger's leases, started by the first, ended with the ledger.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::error::LedgerError;
use crate::lease::Lease;
use crate::ledger::Ledger;

/// A lease is renewed this often within its time.
const BEATS: u32 = 4;

#[derive(Debug, Default)]
pub(crate) struct Heart {
    kept: Arc<Renewals>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The leases to renew.
#[derive(Debug, Default)]
struct Renewals {
    state: Mutex<RenewalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RenewalState {
    leases: BTreeMap<u64, Renewal>,
    last_number: u64,
    /// When the thread wakes by itself, if it does.
    looks_at: Option<Instant>,
    is_closed: bool,
}

#[derive(Debug)]
struct Renewal {
    lease: Lease,
    due: Instant,
    is_lost: bool,
}

impl Heart {
    pub(crate) fn keep(&self, ledger: &Ledger, lease: &Lease) -> Result<Heartbeat, LedgerError> {
        self.start(ledger)?;
        let mut state = self.kept.lock();
        state.last_number += 1;
        let number = state.last_number;
        let due = Instant::now() + lease.ttl() / BEATS;
        let is_too_late = state.looks_at.is_none_or(|looks_at| due < looks_at);
        state.leases.insert(number, Renewal { lease: lease.clone(), due, is_lost: false });
        drop(state);
        if is_too_late {
            self.kept.changed.notify_one();
        }
        Ok(Heartbeat { kept: Arc::clone(&self.kept), number })
    }

    fn start(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (kept, weak) = (Arc::clone(&self.kept), ledger.downgrade());
            let beat = move || {
                while let Some((number, lease)) = kept.next_due() {
                    let Some(ledger) = weak.upgrade() else { break };
                    // Other failures may be temporary; if not, the append fails too.
                    let is_lost = matches!(ledger.renew_lease(&lease), Err(LedgerError::LeaseLost { .. }));
                    kept.renewed(number, is_lost);
                }
            };
            let started = std::thread::Builder::new().name("ledger-heart".to_owned()).spawn(beat);
            *thread = Some(started.map_err(|error| ledger.failed(&error))?);
        }
        Ok(())
    }

    /// Ends the thread. It may hold the last reference to the ledger itself; then this code runs on that thread.
    pub(crate) fn stop(&mut self) {
        self.kept.lock().is_closed = true;
        self.kept.changed.notify_one();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A thread that panicked has also stopped.
            let _ = thread.join();
        }
    }
}

impl Renewals {
    fn lock(&self) -> MutexGuard<'_, RenewalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a lease is due; `None` when the ledger is closed.
    fn next_due(&self) -> Option<(u64, Lease)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let beating = state.leases.iter().filter(|(_, beat)| !beat.is_lost);
            let Some((number, beat)) = beating.min_by_key(|(_, beat)| beat.due) else {
                state.looks_at = None;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let remaining = beat.due.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Some((*number, beat.lease.clone()));
            }
            state.looks_at = Some(beat.due);
            state = self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn renewed(&self, number: u64, is_lost: bool) {
        if let Some(beat) = self.lock().leases.get_mut(&number) {
            beat.is_lost = is_lost;
            beat.due = Instant::now() + beat.lease.ttl() / BEATS;
        }
    }
}

/// Renews a lease as long as it exists.
#[derive(Debug)]
#[must_use = "the lease is renewed only while this exists"]
pub struct Heartbeat {
    kept: Arc<Renewals>,
    number: u64,
}

impl Heartbeat {
    /// Whether the lease was lost; work under it is then useless.
    pub fn is_lost(&self) -> bool {
        self.kept.lock().leases.get(&self.number).is_some_and(|beat| beat.is_lost)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.kept.lock().leases.remove(&self.number);
    }
}
