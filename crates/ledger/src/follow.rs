//! Following a log as it grows. Inside a process the writer says when a log has grown; for other processes' writes
//! one thread waits on the database's own signal, and only while someone follows. Nobody polls a table.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;

#[derive(Debug, Default)]
struct WatchState {
    /// Counts what this process has written, by tenant.
    grown: BTreeMap<TenantId, u64>,
    /// Counts what others may have written, to any tenant.
    others: u64,
    followers: usize,
    is_closed: bool,
}

/// Counts how often logs have grown.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    state: Mutex<WatchState>,
    changed: Condvar,
}

impl Growth {
    /// Wakes the followers of these tenants.
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

    /// Releases every follower.
    pub(crate) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut WatchState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, WatchState> {
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

/// Notices that a tenant's log, or any log, may have grown.
#[derive(Debug)]
pub struct LogWatch {
    growth: Arc<Growth>,
    /// Whose log; every log if absent.
    tenant_id: Option<TenantId>,
    seen: (u64, u64),
}

impl LogWatch {
    pub(crate) fn new(growth: &Arc<Growth>, tenant_id: Option<&TenantId>) -> LogWatch {
        let mut watch = LogWatch { growth: Arc::clone(growth), tenant_id: tenant_id.cloned(), seen: (0, 0) };
        watch.seen = {
            let mut state = growth.lock();
            state.followers += 1;
            watch.count(&state)
        };
        growth.changed.notify_all();
        watch
    }

    fn count(&self, state: &WatchState) -> (u64, u64) {
        let grown = match &self.tenant_id {
            Some(tenant) => state.grown.get(tenant).copied().unwrap_or_default(),
            None => state.grown.values().sum(),
        };
        (grown, state.others)
    }

    /// Waits on this thread until the log may have grown or the timeout ends; true if it may have grown.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let growth = Arc::clone(&self.growth);
        let is_idle = |state: &mut WatchState| self.count(state) == self.seen && !state.is_closed;
        let waited = growth.changed.wait_timeout_while(growth.lock(), timeout, is_idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let now = self.count(&state);
        std::mem::replace(&mut self.seen, now) != now
    }
}

impl Drop for LogWatch {
    fn drop(&mut self) {
        self.growth.lock().followers -= 1;
    }
}
