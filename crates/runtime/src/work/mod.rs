//! Work runs (agent-run): an agent changes a workspace within hard limits and either succeeds completely or leaves no trace.

mod agent_bounds;
mod batch;
mod branch;
mod clean;
mod config;
mod confine;
mod counts;
mod diagnose;
mod diffstat;
mod engine;
mod error;
mod existing;
mod freeze;
mod git;
mod guard;
mod held_proof;
mod hidden;
mod hold;
mod interrupt;
mod journal;
mod land;
mod later;
mod log;
mod merge;
mod missing;
mod objects;
mod origin;
mod output;
mod pack;
mod paths;
mod presets;
mod prompt;
mod protect;
mod reader;
pub mod receipt;
mod record;
mod recover;
pub mod replay;
mod result;
mod retry;
mod run;
mod secrets;
mod served;
mod signed;
mod stage;
mod store;
mod stream;
mod subject;
mod tasks;
mod tests_run;
mod trace;
mod undo;

use crealeph_contracts::instant::Timestamp;
use crealeph_ledger::Clock;

pub(crate) use config::HIDDEN;

pub use agent_bounds::configured_bounds;
pub use batch::{Destination, ItemOutcome, RunOptions, WorkProgress};
pub use clean::{CleanedRuns, KeepRuns};
pub use config::{WorkAgent, WorkConfig};

pub use diagnose::{AgentExam, AgentFinding};
pub(crate) use tests_run::counts_in_log;

pub use diffstat::{DiffStat, FileStat, diff_name};
pub use engine::{Work, WorkSetup};
pub use error::{BlockedStep, WorkError};
pub use hold::{DecidedRun, HeldRun};
pub use interrupt::Interrupt;
pub use journal::RunVerdict;
pub use later::ChangedPath;
pub use log::{LogReader, LogRecord, LogSource, last_lines, log_records};
pub use output::OutputPart;
pub use pack::{CAPSULE_FILE, CapsuleBounds};
pub use paths::OutsideWorkspace;
pub use reader::{KeptDocument, RunReader, RunState, RunSummary};
pub use recover::{KeptFile, Recovery};
pub use result::{ItemResult, reason_in_words};
pub use retry::{RetryOptions, RetryableRun};
pub use run::RunStage;
pub use served::{ServedError, ServedWorkspace};
pub use signed::{DecidedChange, SettledRun};
pub use store::RunsError;
pub use tasks::{TasksError, from_tasks};
pub use undo::{LandedRun, UNDO_PREFIX, UndoOptions};

/// The time, as the system writes it (R1).
fn now() -> Timestamp {
    Clock::system().now().timestamp()
}
