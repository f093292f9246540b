//! Results that cannot be written.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use crealeph_contracts::json::ComposeError;

/// Why a result could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputFailure {
    #[error("cannot write to standard output")]
    Stdout(#[source] io::Error),
    #[error("`{0}` in CREALEPH_OUTPUT is not known")]
    BadReader(String),
    #[error("cannot write `{}`", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` already exists, and nothing was written", .0.display())]
    Taken(PathBuf),
    #[error("`{}` is not empty", .0.display())]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Compose(#[from] ComposeError),
}

impl OutputFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            OutputFailure::Stdout(_) => "output",
            OutputFailure::BadReader(_) => "bad_option",
            OutputFailure::Unwritable { .. } => "unwritable",
            OutputFailure::Taken(_) | OutputFailure::NotEmpty(_) => "taken",
            OutputFailure::Compose(_) => "too_large",
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            OutputFailure::Stdout(_) => "free some space, or redirect the output",
            OutputFailure::BadReader(_) => "use `text` for a person or `json` for a program, or unset it",
            OutputFailure::Unwritable { .. } => "check that the folder exists and its disk has free space",
            OutputFailure::Taken(_) => "move it away, or give another path",
            OutputFailure::NotEmpty(_) => "name a new or an empty folder",
            OutputFailure::Compose(_) => return None,
        }))
    }

    /// No one reads our output any more; that is not an error.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, OutputFailure::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
