//! The errors of the crate, as one enum with a stable code each. Owns their wording; refuses to repeat the
//! source in a message.

use std::io;
use std::path::PathBuf;

use crate::outcome::Missing;

/// Why a sandbox request failed.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The request itself is wrong.
    #[error("the sandbox request is not valid: {what}")]
    InvalidSpec {
        /// What is wrong and what to do.
        what: String,
    },
    /// Full strength is not possible on this machine and `reduced` was not accepted.
    #[error("the sandbox cannot run at full strength here: {}; or accept `reduced` in the configuration", list(.missing))]
    Refused {
        /// What is missing, with advice.
        missing: Vec<Missing>,
    },
    /// The program is not there or cannot be started.
    #[error(
        "cannot start `{program}` inside the sandbox; install it, grant the directory it lives in, or name its full path"
    )]
    CannotStart {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Something named in the request cannot be used.
    #[error("cannot {action} `{}`; check that it exists and is accessible", .path.display())]
    Path {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A step of the set-up failed although the machine supports it.
    #[error("the sandbox could not be set up at `{step}`; `crealeph doctor` shows what this machine lacks")]
    Setup {
        /// The step.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// The helper process ended without an answer.
    #[error("the sandbox helper ended without an answer; the command may not have run: run it again")]
    HelperLost,
    /// A limit of a view was reached.
    #[error("the view at `{}` exceeds its limit: {what}", .path.display())]
    ViewBound {
        /// The view's lower directory.
        path: PathBuf,
        /// Which limit, and how to raise it.
        what: String,
    },
}

impl SandboxError {
    /// A stable code, the same on the command line and over HTTP.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidSpec { .. } => "SANDBOX_INVALID_REQUEST",
            Self::Refused { .. } => "SANDBOX_REFUSED",
            Self::CannotStart { .. } => "SANDBOX_CANNOT_START",
            Self::Path { .. } => "SANDBOX_PATH",
            Self::Setup { .. } => "SANDBOX_SETUP",
            Self::HelperLost => "SANDBOX_HELPER_LOST",
            Self::ViewBound { .. } => "SANDBOX_VIEW_BOUND",
        }
    }
}

fn list(missing: &[Missing]) -> String {
    let parts: Vec<String> =
        missing.iter().map(|m| format!("{} is missing ({})", m.what, m.advice)).collect();
    parts.join(", ")
}
