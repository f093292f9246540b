//! Configurations and folders that the user has not trusted, and the user's own state.

use std::borrow::Cow;
use std::path::PathBuf;

use crealeph_runtime::trust::{GrantError, TrustStoreError};
use crealeph_workspace::OwnershipError;

use crate::page::Page;

/// Why something is not trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustFailure {
    #[error("`{}` grants what you have not trusted, and nothing was done", .path.display())]
    Untrusted { path: PathBuf, command: String, asked: Page },
    #[error("`{}` is not trusted, and nothing was done", .0.display())]
    Declined(PathBuf),
    #[error("there is no terminal to ask on")]
    NobodyToAsk(String),
    #[error("there is no folder for your own state: neither XDG_STATE_HOME nor HOME is an absolute path")]
    NoUserState,
    #[error(
        "your state directory `{}` lies in the workspace `{}`, where agents work", .state.display(),
        .workspace.display()
    )]
    StateInside { state: PathBuf, workspace: PathBuf },
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    Store(#[from] TrustStoreError),
    #[error(transparent)]
    Grants(#[from] GrantError),
}

impl TrustFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            TrustFailure::Untrusted { .. } | TrustFailure::Declined(_) | TrustFailure::NobodyToAsk(_) => {
                "untrusted"
            }
            TrustFailure::NoUserState | TrustFailure::StateInside { .. } | TrustFailure::Store(_) => {
                "user_state"
            }
            TrustFailure::Ownership(OwnershipError::Io { .. } | OwnershipError::Git(_)) => "workspace",
            TrustFailure::Ownership(_) => "foreign_state",
            TrustFailure::Grants(_) => "bad_configuration",
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            TrustFailure::Untrusted { command, .. } => {
                format!("run `{command}` to look and accept, or in a script `{command} --yes`").into()
            }
            TrustFailure::NobodyToAsk(command) => format!("if you trust it, run `{command}`").into(),
            TrustFailure::NoUserState => "set one of them".into(),
            TrustFailure::StateInside { .. } => "set XDG_STATE_HOME to a folder elsewhere".into(),
            TrustFailure::Declined(_)
            | TrustFailure::Ownership(_)
            | TrustFailure::Store(_)
            | TrustFailure::Grants(_) => return None,
        })
    }
}
