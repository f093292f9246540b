//! A workspace as a value: its state and the state's hash, a store of contents, the change a run makes and its deltas,
//! and publishing that change so that a crash leaves exactly before or exactly after.
//!
//! Starts no process and knows nothing of ledgers, agents or policy. Its guarantees and their limits are
//! in `docs/workspace.md`.

mod archive;
mod cache;
mod capsule;
mod change;
mod clean;
mod content;
mod control;
mod deadline;
mod delta;
mod denied;
mod durable;
mod git;
mod kept_state;
mod listing;
mod names;
mod node;
mod ownership;
mod path;
mod publish;
mod rooted;
mod rules;
mod scan;
mod staged;
mod state;
mod store;
mod tree;
mod unified;
mod walk;
mod workspace;

pub use archive::{Archive, copy_state, state_of_everything, state_without_cache};
pub use capsule::{Capsule, CaptureError, Discarded, UnwantedChange, ViewChanges};
pub use change::{Change, ChangeKind, changes_between};
pub use clean::Cleaned;
pub use control::ControlError;
pub use deadline::Deadline;
pub use delta::{DIFF_ALGORITHM, DeltaError, Deltas};
pub use denied::{DenialReason, DeniedPath};
pub use durable::sync_together;
pub use git::objects::{FindBlobs, GitObjects, ReadBlob};
pub use git::{GitError, GitRepository};
pub use kept_state::{Hidden, KeepError};
pub use listing::{Arrival, Arrived, Inspect, Listing, Surveyed};
pub use names::Wanted;
pub use node::TreeNode;
pub use ownership::{Contents, OwnershipError, Registry, make_private_folder, replace_private_file};
pub use path::{PathFault, TreePath};
pub use publish::{HeldId, Kept, KeptPlace, Prepared, PublishError, PublishOutcome, Published, Settled};
pub use scan::{Refusal, RefusalReason, ScanError, ScanLimits, Tally, WorkspaceSnapshot};
pub use staged::Added;
pub use state::{FileAndFolder, State, StateHash};
pub use store::{Store, StoreError};
pub use unified::unified_hunks;
pub use workspace::{OpenError, SnapshotError, Workspace};
