//! Following a log as it grows. Inside a process the writer says when a log has grown; for other processes' writes
//! one thread waits on the database's own signal, and only while someone follows. Nobody polls a table.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;

#[derive(Debug, Default)]
struct State {
    /// Counts what this process has written, by tenant.
    grown: BTreeMap<TenantId, u64>,
    /// Counts what others may have written, to any tenant.
    others: u64,
    wakers: Vec<Waker>,
    followers: usize,
    is_closed: bool,
}

/// Knows when logs have grown.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    state: Mutex<State>,
    changed: Condvar,
}

impl Growth {
    /// Wakes whoever follows these tenants.
    pub(crate) fn announce(&self, tenants: &[TenantId]) {
        self.change(|state| {
            for tenant in tenants {
                *state.grown.entry(tenant.clone()).or_default() += 1;
            }
        });
    }

    /// Wakes everyone: another process may have written.
    pub(crate) fn announce_others(&self) {
        self.change(|state| state.others += 1);
    }

    /// Lets every follower go.
    pub(crate) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = self.lock();
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until someone follows; false when the ledger was closed.
    pub(crate) fn wait_for_follower(&self) -> bool {
        let mut state = self.lock();
        while state.followers == 0 && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_closed
    }
}

/// A place from which to learn that a tenant's log may have grown.
#[derive(Debug)]
pub struct Watch {
    growth: Arc<Growth>,
    tenant_id: TenantId,
    seen: (u64, u64),
}

impl Watch {
    pub(crate) fn new(growth: &Arc<Growth>, tenant_id: &TenantId) -> Watch {
        let mut watch = Watch { growth: Arc::clone(growth), tenant_id: tenant_id.clone(), seen: (0, 0) };
        watch.seen = {
            let mut state = growth.lock();
            state.followers += 1;
            watch.count(&state)
        };
        growth.changed.notify_all();
        watch
    }

    fn count(&self, state: &State) -> (u64, u64) {
        (state.grown.get(&self.tenant_id).copied().unwrap_or_default(), state.others)
    }

    /// Waits on this thread until the log may have grown, or the time is over; true where it may have.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let growth = Arc::clone(&self.growth);
        let is_idle = |state: &mut State| self.count(state) == self.seen && !state.is_closed;
        let waited = growth.changed.wait_timeout_while(growth.lock(), timeout, is_idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let now = self.count(&state);
        std::mem::replace(&mut self.seen, now) != now
    }

    /// Waits in a task until the log may have grown; false when the ledger was closed.
    pub fn changed(&mut self) -> Changed<'_> {
        Changed(self)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.growth.lock().followers -= 1;
    }
}

/// Ready when the log may have grown.
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct Changed<'a>(&'a mut Watch);

impl Future for Changed<'_> {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let watch = &mut *self.get_mut().0;
        let growth = Arc::clone(&watch.growth);
        let mut state = growth.lock();
        let now = watch.count(&state);
        if now != watch.seen {
            watch.seen = now;
            return Poll::Ready(true);
        }
        if state.is_closed {
            return Poll::Ready(false);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
