//! What the Builder, its agents, reviews and robots cannot do.

use std::borrow::Cow;
use std::path::PathBuf;

use crealeph_runtime::agents::conformance::Uncalled;
use crealeph_runtime::builder::BuildError;
use crealeph_runtime::review::VerdictError;
use crealeph_runtime::robot::StatusError;

use super::{JUDGED, NOT_JUDGED};
use crate::interrupt::INTERRUPTED;

/// Why a command on executions, drafts, robots or agents failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuilderFailure {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Review(#[from] VerdictError),
    #[error(transparent)]
    Robot(#[from] StatusError),
    #[error("the ledger has no execution `{0}` of this tenant")]
    NoExecution(String),
    #[error("the ledger has no execution of this tenant yet")]
    NoExecutions,
    #[error("the ledger holds only one execution of this tenant")]
    OnlyOneExecution,
    #[error("the execution has no record{}", of_attempt(*attempt))]
    NoRecord { attempt: Option<u64> },
    #[error("there is no agent `{name}` in `{}`", .path.display())]
    NoAgent { name: String, path: PathBuf, known: String },
    #[error("there is no `{}` here to name agents", .0.display())]
    NoConfiguration(PathBuf),
    #[error(transparent)]
    Uncalled(#[from] Uncalled),
}

impl BuilderFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            BuilderFailure::Build(error) => error.code(),
            BuilderFailure::Review(error) => error.code(),
            BuilderFailure::Robot(error) => error.code(),
            BuilderFailure::NoExecution(_)
            | BuilderFailure::NoExecutions
            | BuilderFailure::OnlyOneExecution
            | BuilderFailure::NoRecord { .. } => "unknown_id",
            BuilderFailure::NoAgent { .. } | BuilderFailure::NoConfiguration(_) => "unknown_agent",
            BuilderFailure::Uncalled(_) => "agent_not_called",
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            BuilderFailure::NoExecution(_)
            | BuilderFailure::NoExecutions
            | BuilderFailure::OnlyOneExecution
            | BuilderFailure::NoRecord { .. }
            | BuilderFailure::Review(
                VerdictError::NoEntry(_)
                | VerdictError::NotReviewed(_)
                | VerdictError::NotTheBuilders(_)
                | VerdictError::Unsigned
                | VerdictError::Settled { .. },
            ) => JUDGED,
            BuilderFailure::Build(BuildError::Cancelled) => INTERRUPTED,
            _ => NOT_JUDGED,
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            BuilderFailure::NoExecution(_) => "check the id and --tenant".into(),
            BuilderFailure::OnlyOneExecution => "see it with `crealeph execution show @`".into(),
            BuilderFailure::NoExecutions => "start one with `crealeph build`".into(),
            BuilderFailure::NoRecord { .. } => "see its events with `crealeph execution show`".into(),
            BuilderFailure::NoAgent { known, .. } if known.is_empty() => "it names no agent".into(),
            BuilderFailure::NoAgent { known, .. } => format!("known agents: {known}").into(),
            BuilderFailure::NoConfiguration(_) => {
                "create one with `crealeph init`, or check a command: `agent check -- COMMAND`".into()
            }
            BuilderFailure::Build(BuildError::Ledger(error))
            | BuilderFailure::Review(VerdictError::Ledger(error))
            | BuilderFailure::Robot(StatusError::Ledger(error)) => return error.hint(),
            BuilderFailure::Review(VerdictError::Unsigned) => {
                "sign it with `crealeph approve` or `reject`".into()
            }
            BuilderFailure::Build(_)
            | BuilderFailure::Review(_)
            | BuilderFailure::Robot(_)
            | BuilderFailure::Uncalled(_) => return None,
        })
    }
}

fn of_attempt(attempt: Option<u64>) -> String {
    attempt.map_or_else(String::new, |attempt| format!(" of attempt {attempt}"))
}
