//! Why work cannot be done. The outcome of a run is not an error; inside the chain of stages both end it, and `Stop` is either.

use std::borrow::Cow;
use std::fmt;

use crealeph_contracts::text::with_causes;
use crealeph_decision::work::{ChangeConflict, Ending, OutputOverlap};
use crealeph_ledger::{AppendError, LedgerError};
use crealeph_sandbox::SandboxError;
use crealeph_workspace::{KeepError, OpenError, PublishError, SnapshotError};

use super::later::{ChangedPath, listed};
use super::paths::OutsideWorkspace;
use super::receipt::{SealError, SignerError};
use super::store::RunsError;
use crate::approvals::ApprovalError;

/// Why work cannot be done; the outcome of a run is not an error.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The workspace cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its state cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A change could not be settled.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A state could not be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The runs cannot be kept or read.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// A receipt cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The workspace cannot sign.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The sandbox's state directory cannot be used.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A receipt cannot be appended to the ledger.
    #[error("the run has ended and its receipt is written, but cannot be appended to the ledger: {0}")]
    Unrecorded(AppendError),
    /// The record of a held change cannot be appended to the ledger.
    #[error("the change is held, but its record cannot be appended to the ledger: {0}")]
    Unsubmitted(AppendError),
    /// The ledger has no record of a held change.
    #[error("the ledger has no record of the change of run `{0}` to decide about")]
    NotSubmitted(String),
    /// Verdicts are signed in this tenant.
    #[error("people are enrolled in this tenant, so a verdict on run `{0}` must be signed")]
    Unsigned(String),
    /// The ledger says that a change has landed which is held here.
    #[error(
        "the ledger says that run `{0}` has landed, but here its change is held; this workspace is an older copy"
    )]
    LandedElsewhere(String),
    /// What the ledger says of approvals.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    /// A path of an item is elsewhere.
    #[error(transparent)]
    Outside(#[from] OutsideWorkspace),
    /// No one is there for an item.
    #[error("item `{item}` is for `{agent}`, and {why}")]
    NoAgent {
        /// The item.
        item: String,
        /// The agent it names.
        agent: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// What would be recorded holds a secret.
    #[error(
        "the {place} of item `{item}` contains a secret that its agent is granted, and would be recorded"
    )]
    SecretInRequest {
        /// The item, redacted.
        item: String,
        /// What holds it.
        place: &'static str,
    },
    /// Two items of a level declare the same output.
    #[error("items `{one}` and `{other}` run in parallel and both declare `{path}` in output_files")]
    Overlap {
        /// The first by id.
        one: String,
        /// The second.
        other: String,
        /// The path.
        path: String,
    },
    /// The items cannot be planned.
    #[error(transparent)]
    Plan(#[from] crealeph_decision::work::PlanError),
    /// A run does not wait for approval.
    #[error("run `{0}` does not await approval")]
    NotHeld(String),
    /// A held change is not the one that was held.
    #[error(
        "run `{run}` is not the change that was held: {what} was altered since; reject it, and run its item again"
    )]
    Altered {
        /// The run.
        run: String,
        /// What of it.
        what: String,
    },
    /// The change of a run cannot be judged again.
    #[error("run `{run}` cannot be retried: {why}")]
    NotRetryable {
        /// The run.
        run: String,
        /// Why not.
        why: String,
        /// What to do instead.
        hint: Option<&'static str>,
    },
    /// A run cannot be undone.
    #[error("run `{run}` cannot be undone: {why}")]
    NotUndoable {
        /// The run.
        run: String,
        /// Why not, and what to do.
        why: String,
    },
    /// Files changed since, so that a change cannot be applied.
    #[error("run `{run}` {step}: {}", listed(.paths))]
    InTheWay {
        /// The run.
        run: String,
        /// What cannot be done with it.
        step: BlockedStep,
        /// The files.
        paths: Vec<ChangedPath>,
    },
    /// A change could not land, and is held as before.
    #[error("run `{run}` is still awaiting approval: {why}")]
    StillHeld {
        /// The run.
        run: String,
        /// What was in the way.
        why: String,
    },
    /// The ledger is part of the state.
    #[error("`{0}` is part of the workspace's state, and every run writes to it")]
    PrivateInside(String),
    /// The git repository cannot be used.
    #[error("cannot {action}: {why}")]
    Git {
        /// What was to be done.
        action: String,
        /// Why it cannot be done.
        why: String,
    },
    /// The system's random source failed.
    #[error("cannot generate an id: {0}")]
    Random(String),
    /// The items belong to several robots.
    #[error("item `{item}` is a task of robot `{own}`, and the others are of `{robot}`")]
    Robots {
        /// The item.
        item: String,
        /// Its robot.
        own: String,
        /// The robot of the others.
        robot: String,
    },
    /// What the policy said.
    #[error("the policy did not allow `work.run` for robot `{robot}`: {why}")]
    Policy {
        /// The robot.
        robot: String,
        /// Its decision and reason.
        why: String,
    },
}

/// What cannot be done with a run while files are in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedStep {
    /// Approving it.
    Approval,
    /// Judging its change again.
    Retry,
    /// Undoing it.
    Undo,
}

impl fmt::Display for BlockedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlockedStep::Approval => "is still awaiting approval",
            BlockedStep::Retry => "cannot be retried",
            BlockedStep::Undo => "cannot be undone",
        })
    }
}

impl WorkError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            WorkError::Open(_) | WorkError::Snapshot(_) | WorkError::Publish(_) | WorkError::Keep(_) => {
                "workspace"
            }
            WorkError::Runs(RunsError::Unknown(_) | RunsError::NoneYet | RunsError::OnlyOne) => "unknown_run",
            WorkError::Runs(RunsError::Ambiguous(_)) => "ambiguous_id",
            WorkError::Runs(_) => "runs",
            WorkError::Seal(_) | WorkError::Signer(_) => "receipt",
            WorkError::Sandbox(error) => error.code(),
            WorkError::Ledger(error) => error.code(),
            WorkError::Unrecorded(error) | WorkError::Unsubmitted(error) => error.code(),
            WorkError::NotSubmitted(_) => "not_submitted",
            WorkError::LandedElsewhere(_) => "landed_elsewhere",
            WorkError::Approval(error) => error.code(),
            WorkError::Unsigned(_) => "unsigned",
            WorkError::Outside(_) => "outside_workspace",
            WorkError::NoAgent { .. } => "unknown_agent",
            WorkError::SecretInRequest { .. } => "secret_in_request",
            WorkError::Overlap { .. } => "overlap",
            WorkError::Plan(_) => "bad_plan",
            WorkError::NotHeld(_) => "not_held",
            WorkError::Altered { .. } => "altered",
            WorkError::NotRetryable { .. } => "not_retryable",
            WorkError::NotUndoable { .. } => "not_undoable",
            WorkError::InTheWay { .. } | WorkError::StillHeld { .. } => "conflict",
            WorkError::PrivateInside(_) => "ledger_in_state",
            WorkError::Git { .. } => "git",
            WorkError::Random(_) => "random",
            WorkError::Robots { .. } => "several_robots",
            WorkError::Policy { .. } => "policy",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            WorkError::Ledger(error) => return error.hint(),
            WorkError::Approval(error) => return error.hint(),
            WorkError::Runs(error) => return error.hint().map(Cow::Borrowed),
            WorkError::NotRetryable { hint, .. } => return hint.map(Cow::Borrowed),
            WorkError::Unrecorded(_) | WorkError::Unsubmitted(_) => "`crealeph work recover` tries again",
            WorkError::NotSubmitted(_) => {
                "an earlier version held it, or it was held under another ledger; run its item again"
            }
            WorkError::Unsigned(_) => "use `crealeph approve` or `crealeph reject`",
            WorkError::SecretInRequest { .. } => "refer to the secret by its name instead",
            WorkError::Overlap { .. } => "let one depend on the other",
            WorkError::NotHeld(_) => STATUS,
            WorkError::InTheWay { step, paths, .. } => return Some(Cow::Owned(in_the_way(*step, paths))),
            WorkError::StillHeld { .. } => "approve it again once that is resolved, or reject it",
            WorkError::PrivateInside(_) => "move it to `.crealeph`, or ignore it with `.gitignore`",
            WorkError::Robots { .. } => "run them separately",
            _ => return None,
        }))
    }
}

/// Where a user sees which runs there are, and how each ended.
pub(super) const STATUS: &str = "see `crealeph work status`";
/// What a user does with a run whose change cannot be used again.
pub(super) const RUN_AGAIN: &str = "run its item again";

/// What to do about files that are in the way.
fn in_the_way(step: BlockedStep, paths: &[ChangedPath]) -> String {
    let first = match step {
        _ if paths.iter().all(|path| !path.runs.is_empty()) => {
            "undo those runs with `crealeph work undo RUN`, newest first"
        }
        _ if paths.iter().any(|path| path.runs.is_empty() && path.unread_runs > 0) => {
            "undo the runs that changed them with `crealeph work undo RUN`, newest first, or restore the files"
        }
        BlockedStep::Approval | BlockedStep::Retry => "restore the files to what they were",
        BlockedStep::Undo => "restore the files to what the run left",
    };
    let then = match step {
        BlockedStep::Approval => "approve it again; or reject it",
        BlockedStep::Retry => "retry; or run its item again",
        BlockedStep::Undo => "undo it",
    };
    format!("{first}, then {then}")
}

impl From<OutputOverlap> for WorkError {
    fn from(overlap: OutputOverlap) -> Self {
        let OutputOverlap { one, other, path } = overlap;
        WorkError::Overlap { one: one.to_string(), other: other.to_string(), path }
    }
}

/// Why a run goes no further: it has ended without landing, and its receipt says so; or work cannot continue at all.
#[derive(Debug)]
pub(super) enum Stop {
    Ended(Ending),
    Error(Box<WorkError>),
}

impl Stop {
    /// What the repository cannot do for one item does not stop the others.
    pub(super) fn for_branch(self) -> Self {
        match self {
            Stop::Error(error) if matches!(*error, WorkError::Git { .. }) => {
                Stop::Ended(Ending::Failed(error.to_string()))
            }
            stop => stop,
        }
    }

    /// A change that no receipt can hold is denied before it is published.
    pub(super) fn for_receipt(self) -> Self {
        match self {
            Stop::Error(error) if matches!(*error, WorkError::Seal(SealError::TooLarge { .. })) => {
                Stop::Ended(Ending::Denied(error.to_string()))
            }
            stop => stop,
        }
    }
}

impl From<Ending> for Stop {
    fn from(ending: Ending) -> Self {
        Stop::Ended(ending)
    }
}

impl From<ChangeConflict> for Stop {
    fn from(conflict: ChangeConflict) -> Self {
        Stop::Ended(Ending::Conflict(conflict.to_string()))
    }
}

impl<E: Into<WorkError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Error(Box::new(error.into()))
    }
}

/// How a run ends whose change could not be published.
pub(super) fn unpublished(error: &PublishError) -> Ending {
    match error {
        PublishError::Denied(denied) => Ending::Denied(denied.to_string()),
        PublishError::Conflict { .. } | PublishError::InTheWay { .. } => {
            Ending::conflict(&with_causes(error))
        }
        _ => Ending::Failed(with_causes(error)),
    }
}
