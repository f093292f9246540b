//! Why a task did not succeed, in words that say what to do next.

use std::io;
use std::path::Path;

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The task was called wrongly.
    #[error("{0}")]
    Usage(String),
    /// Something the task needs is not installed.
    #[error("{0}")]
    Missing(String),
    /// The task ran and its check failed.
    #[error("{0}")]
    Check(String),
    #[error("cannot {action} `{path}`: {source}")]
    File { action: &'static str, path: String, source: io::Error },
    #[error("cannot start `{command}`: {source}; is it installed and on PATH?")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed ({status}){details}")]
    Program { command: String, status: String, details: String },
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            _ => 1,
        }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let path = path.display().to_string();
        move |source| Failure::File { action, path, source }
    }
}
