//! Work runs (agent-run): an agent changes a workspace under hard bounds and either succeeds whole or leaves no trace.

mod branch;
mod clean;
mod commit;
mod config;
mod confine;
mod counts;
mod engine;
mod freeze;
mod git;
mod guard;
mod held_proof;
mod hold;
mod inspect;
mod interrupt;
mod levels;
mod objects;
mod outcome;
mod paths;
mod presets;
mod prompt;
mod protect;
pub mod receipt;
pub mod replay;
mod run;
mod secrets;
mod store;
mod stream;
mod tasks;
mod tests_run;
mod trace;

use std::time::{SystemTime, UNIX_EPOCH};

use crealeph_contracts::instant::{Instant, Timestamp};

pub(crate) use config::HIDDEN;

pub use clean::{Freed, Recent};
pub use config::{WorkAgent, WorkConfig};
pub use engine::{Recovered, Setup, Work, WorkError};
pub use hold::{Opinion, Waits};
pub use inspect::{Inspect, RunState, Summary, Verdict};
pub use interrupt::Interrupt;
pub use levels::{Options, Publish, Reported, Told};
pub use paths::OutsideWorkspace;
pub use run::Step;
pub use store::RunsError;
pub use tasks::{TasksError, from_tasks};

/// The time, as the system writes it (R1).
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Whole milliseconds, as they are written.
    Timestamp::from(Instant::from_unix_nanos(
        i128::try_from(since.as_millis()).unwrap_or_default() * 1_000_000,
    ))
}
