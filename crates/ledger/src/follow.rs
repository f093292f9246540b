//! Following a log as it grows. Inside a process the writer says when a log has grown; for other processes' writes
//! one thread waits on the database's own signal, and only while someone follows. Nothing polls a table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;

/// How many tenants are listed by name; beyond that, every log counts as grown.
const MAX_NAMED: usize = 1_024;

/// The logs that may have grown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrownLogs {
    tenants: BTreeSet<TenantId>,
    is_any: bool,
}

impl GrownLogs {
    /// Whether the log of a tenant may have grown.
    pub fn includes(&self, tenant: &TenantId) -> bool {
        self.is_any || self.tenants.contains(tenant)
    }

    /// Whether none may have grown.
    pub fn is_empty(&self) -> bool {
        !self.is_any && self.tenants.is_empty()
    }

    fn add(&mut self, tenants: &[TenantId]) {
        self.tenants.extend(tenants.iter().cloned());
        if self.tenants.len() > MAX_NAMED {
            *self = GrownLogs { tenants: BTreeSet::new(), is_any: true };
        }
    }
}

#[derive(Debug, Default)]
struct WatchState {
    /// Counts the writes of this process, by tenant.
    grown: BTreeMap<TenantId, u64>,
    /// Counts possible writes of others, to any tenant.
    others: u64,
    /// What each watch of all logs has not seen yet, by its number.
    unseen: BTreeMap<u64, GrownLogs>,
    next_watch: u64,
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
            state.unseen.values_mut().for_each(|unseen| unseen.add(tenants));
        });
    }

    /// Wakes everyone: another process may have written.
    pub(crate) fn announce_others(&self) {
        self.change(|state| {
            state.others += 1;
            state.unseen.values_mut().for_each(|unseen| unseen.is_any = true);
        });
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

/// Notices that a tenant's log may have grown.
#[derive(Debug)]
pub struct LogWatch {
    growth: Arc<Growth>,
    tenant_id: TenantId,
    seen: (u64, u64),
}

impl LogWatch {
    pub(crate) fn new(growth: &Arc<Growth>, tenant_id: &TenantId) -> LogWatch {
        let mut watch = LogWatch { growth: Arc::clone(growth), tenant_id: tenant_id.clone(), seen: (0, 0) };
        watch.seen = {
            let mut state = growth.lock();
            state.followers += 1;
            watch.count(&state)
        };
        growth.changed.notify_all();
        watch
    }

    fn count(&self, state: &WatchState) -> (u64, u64) {
        (state.grown.get(&self.tenant_id).copied().unwrap_or_default(), state.others)
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

/// Notices which logs may have grown.
#[derive(Debug)]
pub struct AllLogsWatch {
    growth: Arc<Growth>,
    number: u64,
}

impl AllLogsWatch {
    pub(crate) fn new(growth: &Arc<Growth>) -> AllLogsWatch {
        let number = {
            let mut state = growth.lock();
            state.followers += 1;
            state.next_watch += 1;
            let number = state.next_watch;
            state.unseen.insert(number, GrownLogs::default());
            number
        };
        growth.changed.notify_all();
        AllLogsWatch { growth: Arc::clone(growth), number }
    }

    /// Waits on this thread until a log may have grown or the timeout ends; returns those that may have grown since the last
    /// call. After a write of another process that is every log.
    pub fn wait(&mut self, timeout: Duration) -> GrownLogs {
        let is_idle = |state: &mut WatchState| {
            state.unseen.get(&self.number).is_none_or(GrownLogs::is_empty) && !state.is_closed
        };
        let waited = self.growth.changed.wait_timeout_while(self.growth.lock(), timeout, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.unseen.insert(self.number, GrownLogs::default()).unwrap_or_default()
    }
}

impl Drop for AllLogsWatch {
    fn drop(&mut self) {
        let mut state = self.growth.lock();
        state.followers -= 1;
        state.unseen.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_of_all_logs_says_which_have_grown_and_each_once() {
        let names: Vec<TenantId> =
            (0..=MAX_NAMED).map(|number| TenantId::parse(&format!("t{number}")).unwrap()).collect();
        let growth = Arc::new(Growth::default());
        growth.announce(&names[..1]);
        let (mut first, mut second) = (AllLogsWatch::new(&growth), AllLogsWatch::new(&growth));
        assert!(first.wait(Duration::ZERO).is_empty(), "what grew before is not new");
        growth.announce(&names[1..2]);
        for watch in [&mut first, &mut second] {
            let grown = watch.wait(Duration::ZERO);
            assert!(grown.includes(&names[1]) && !grown.includes(&names[0]));
            assert!(watch.wait(Duration::ZERO).is_empty());
        }
        growth.announce_others();
        assert!(first.wait(Duration::ZERO).includes(&names[0]));
        growth.announce(&names);
        assert!(first.wait(Duration::ZERO).is_any, "too many to name");
        drop(second);
        assert_eq!(growth.lock().unseen.len(), 1);
    }
}
