//! What work runs cannot do.

use std::borrow::Cow;
use std::path::PathBuf;

use crealeph_decision::work::PlanError;
use crealeph_runtime::work::receipt::SignerError;
use crealeph_runtime::work::replay::ReplayError;
use crealeph_runtime::work::{RunsError, TasksError, WorkError};

use super::{JUDGED, NOT_JUDGED};

/// Why a command on work runs failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkFailure {
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Tasks(#[from] TasksError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Signer(#[from] SignerError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("there is no file `{0}`")]
    NoItems(String),
    #[error("the task is empty")]
    EmptyTask,
    #[error("the items of `{0}` have their own limits, and flags set those of a task in words")]
    BoundsOfItems(String),
    #[error("there is no `{}`", .0.display())]
    NoStatement(PathBuf),
    #[error("the ledger does not have the receipt of run {0}: it was too large")]
    NotRecorded(String),
    #[error("who signed the receipt of run {run} is not known to the server: {detail}")]
    Unproven { run: String, detail: String },
    #[error("the files of the run do not match its receipt: {0}")]
    Mismatch(String),
}

impl WorkFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            WorkFailure::Work(error) => error.code(),
            WorkFailure::Tasks(TasksError::Ledger(error)) => error.code(),
            WorkFailure::Tasks(TasksError::Records(error)) => error.code(),
            WorkFailure::Tasks(TasksError::None(_)) => "unknown_id",
            WorkFailure::Tasks(TasksError::TooMany(_)) => "too_large",
            WorkFailure::Tasks(TasksError::Task(_) | TasksError::Unreadable(_)) => "invalid",
            WorkFailure::Plan(PlanError::Cycle(_)) => "cycle",
            WorkFailure::Plan(PlanError::DuplicateId(_)) => "duplicate_id",
            WorkFailure::Signer(_) => "bad_key",
            WorkFailure::Replay(_) => "bad_run",
            WorkFailure::NoItems(_) | WorkFailure::NoStatement(_) | WorkFailure::NotRecorded(_) => {
                "not_found"
            }
            WorkFailure::Unproven { .. } => "bad_key",
            WorkFailure::Mismatch(_) => "altered",
            WorkFailure::EmptyTask | WorkFailure::BoundsOfItems(_) => "bad_option",
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            WorkFailure::Work(WorkError::Approval(error)) if error.is_refusal() => JUDGED,
            WorkFailure::Mismatch(_)
            | WorkFailure::Plan(_)
            | WorkFailure::Tasks(TasksError::None(_) | TasksError::Task(_))
            | WorkFailure::Work(
                WorkError::Plan(_)
                | WorkError::Outside(_)
                | WorkError::Overlap { .. }
                | WorkError::Policy { .. }
                | WorkError::NotHeld(_)
                | WorkError::Unsigned(_)
                | WorkError::NotSubmitted(_)
                | WorkError::LandedElsewhere(_)
                | WorkError::Altered { .. }
                | WorkError::NotRetryable { .. }
                | WorkError::NotUndoable { .. }
                | WorkError::InTheWay { .. }
                | WorkError::StillHeld { .. }
                | WorkError::Runs(RunsError::Unknown(_) | RunsError::NoneYet | RunsError::OnlyOne),
            )
            | WorkFailure::Replay(ReplayError::OtherStart { .. } | ReplayError::NotAReceipt(_)) => JUDGED,
            _ => NOT_JUDGED,
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            WorkFailure::Work(error) => return error.hint(),
            WorkFailure::Tasks(TasksError::Ledger(error)) => return error.hint(),
            WorkFailure::NoItems(_) => {
                "name a file of work items, or use --agent NAME to run a task given in words"
            }
            WorkFailure::NoStatement(_) => {
                "a receipt is checked with the signed statement next to it, so keep the two together"
            }
            WorkFailure::NotRecorded(_) => "verify it in its workspace",
            WorkFailure::Unproven { .. } => {
                "give --key with a key that you saved, or have an admin enrol its signer: `crealeph signer add`"
            }
            WorkFailure::EmptyTask => {
                "say what the agent is to do, as in `crealeph work run --agent NAME \"Fix the parser\"`"
            }
            WorkFailure::BoundsOfItems(_) => {
                "set `constraints` in each item, and limits per class in the agent's `paths`"
            }
            WorkFailure::Mismatch(_) => "see `crealeph work verify`",
            WorkFailure::Tasks(_)
            | WorkFailure::Plan(_)
            | WorkFailure::Signer(_)
            | WorkFailure::Replay(_) => return None,
        }))
    }
}
