//! A workspace as a value: its state and the state's hash, a store of contents, the change a run makes and its deltas,
//! and publishing that change so that a crash leaves exactly before or exactly after.
//!
//! Starts no process and knows nothing of ledgers, agents or policy. What it guarantees, and what it cannot, is written
//! down in `docs/workspace.md`.

mod cache;
mod content;
mod control;
mod git;
mod node;
mod path;
mod rooted;
mod rules;
mod scan;
mod state;
mod workspace;

pub use control::ControlError;
pub use git::GitError;
pub use node::Node;
pub use path::{PathFault, TreePath};
pub use scan::{Limits, Refusal, RefusalReason, ScanError, Snapshot, Tally};
pub use state::{FileAndFolder, State, StateHash};
pub use workspace::{OpenError, SnapshotError, Workspace};
