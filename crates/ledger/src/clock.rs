//! The ledger's clock: read by the writer alone (R20). It may jump back; what the ledger writes does not.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::position::Millis;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// The system's wall clock.
    pub fn system() -> Self {
        Clock::from_fn(|| {
            let now = SystemTime::now();
            let millis = match now.duration_since(UNIX_EPOCH) {
                Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
                Err(before) => {
                    i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
                }
            };
            Millis::new(millis)
        })
    }

    /// A clock of one's own, for tests.
    pub fn from_fn(tell: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Clock(Arc::new(tell))
    }

    /// The time it tells.
    pub fn now(&self) -> Millis {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}
