//! Ending everything that runs when a person interrupts. Owns the handles of the runs in progress, as long as they run;
//! once used it stays used, and anything that starts afterwards is ended immediately.

use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crealeph_decision::work::Ending;
use crealeph_sandbox::Cancel;

/// A handle that ends every run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_used: AtomicBool,
    next: AtomicU64,
    live: Mutex<BTreeMap<u64, Cancel>>,
}

/// The handle of one run, known to the interrupt until it is dropped.
#[derive(Debug)]
pub(super) struct Live {
    cancel: Cancel,
    id: u64,
    all: Arc<Inner>,
}

impl Interrupt {
    /// Ends every run, now and later.
    pub fn interrupt(&self) {
        self.0.is_used.store(true, Ordering::SeqCst);
        self.0.live().values().for_each(Cancel::cancel);
    }

    /// Whether it was used.
    pub fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::SeqCst)
    }

    /// How a step ended that could not be carried out: if everything was to end, then because of that.
    pub(super) fn or(&self, ending: Ending) -> Ending {
        if self.is_used() { Ending::Interrupted } else { ending }
    }

    /// A handle for one run.
    pub(super) fn cancel(&self) -> io::Result<Live> {
        let cancel = Cancel::new()?;
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.live().insert(id, cancel.clone());
        if self.is_used() {
            cancel.cancel();
        }
        Ok(Live { cancel, id, all: Arc::clone(&self.0) })
    }
}

impl Inner {
    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, Cancel>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Live {
    type Target = Cancel;

    fn deref(&self) -> &Cancel {
        &self.cancel
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.all.live().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_ends_current_and_later_runs_and_forgets_finished_ones() {
        let interrupt = Interrupt::default();
        let (over, running) = (interrupt.cancel().unwrap(), interrupt.cancel().unwrap());
        drop(over);
        assert_eq!(interrupt.0.live().len(), 1);
        interrupt.interrupt();
        assert!(running.is_cancelled() && interrupt.cancel().unwrap().is_cancelled());
    }
}
