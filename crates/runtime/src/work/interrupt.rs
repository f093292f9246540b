//! Ending everything that runs when a person says so. Owns the handles of the runs that are going on; once used it stays
//! used, and whatever starts afterwards is ended at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crealeph_sandbox::Cancel;

/// A handle that ends every run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_used: AtomicBool,
    live: Mutex<Vec<Cancel>>,
}

impl Interrupt {
    /// Ends every run, now and later.
    pub fn interrupt(&self) {
        self.0.is_used.store(true, Ordering::SeqCst);
        let live = self.0.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().for_each(Cancel::cancel);
    }

    /// Whether it was used.
    pub fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::SeqCst)
    }

    /// A handle for one run.
    pub(super) fn cancel(&self) -> io::Result<Cancel> {
        let cancel = Cancel::new()?;
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner).push(cancel.clone());
        if self.is_used() {
            cancel.cancel();
        }
        Ok(cancel)
    }
}
