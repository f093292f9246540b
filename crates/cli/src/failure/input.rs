//! Files and documents that cannot be read or are not valid.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use crealeph_contracts::violation::Violation;
use crealeph_decision::judge::ContextError;
use crealeph_runtime::configuration::RulesFileError;

use super::{JUDGED, NOT_JUDGED};

/// What is wrong with a file that was named.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputFailure {
    #[error("there is no file `{}`", .0.display())]
    NotFound(PathBuf),
    #[error("`{}` is a directory", .0.display())]
    IsDirectory(PathBuf),
    #[error("`{}` is not a regular file but a link, a pipe or a device", .0.display())]
    NotAFile(PathBuf),
    #[error("`{}` is a pipe that no one writes to", .0.display())]
    NoWriter(PathBuf),
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    #[error("`{what}` is longer than the limit of {limit} bytes")]
    TooLarge { what: String, limit: usize },
    #[error("`{name}` has more than {limit} {what}")]
    TooMany { name: String, limit: usize, what: &'static str },
    #[error("there is no entry in `{0}`")]
    NoEntries(String),
    #[error("`{name}` is not a valid {expected}:\n{}", listed(.violations))]
    Invalid { name: String, expected: &'static str, violations: Vec<Violation> },
    #[error("`{name}` is not a context:\n{}", listed(.violations))]
    NoContext { name: String, violations: Vec<Violation> },
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    Rules(#[from] RulesFileError),
}

impl InputFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            InputFailure::NotFound(_) => "not_found",
            InputFailure::IsDirectory(_) => "is_directory",
            InputFailure::Unreadable { .. } | InputFailure::NotAFile(_) => "unreadable",
            InputFailure::NoWriter(_) => "no_writer",
            InputFailure::NotText(_) => "not_text",
            InputFailure::TooLarge { .. } | InputFailure::TooMany { .. } => "too_large",
            InputFailure::NoEntries(_) => "no_entries",
            InputFailure::Invalid { .. } => "invalid",
            InputFailure::NoContext { .. } | InputFailure::Context(_) => "bad_context",
            InputFailure::Rules(_) => "bad_rules",
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        if matches!(self, InputFailure::Invalid { .. }) { JUDGED } else { NOT_JUDGED }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            InputFailure::NotFound(_) => "check the path, or give `-` for standard input",
            InputFailure::IsDirectory(_) => "name a file in it",
            InputFailure::NotAFile(_) => "name a regular file",
            InputFailure::NoWriter(_) => "start the writer first",
            InputFailure::Unreadable { .. } => "check its permissions",
            InputFailure::NotText(_) => "check that it is the file you mean",
            InputFailure::TooLarge { .. } => "make it smaller",
            InputFailure::TooMany { .. } => "split it",
            InputFailure::NoEntries(_) => "give entries as JSON Lines",
            InputFailure::Invalid { .. }
            | InputFailure::NoContext { .. }
            | InputFailure::Context(_)
            | InputFailure::Rules(_) => return None,
        }))
    }

    /// What is wrong with the document, one line each, and the line before them.
    pub(super) fn violations(&self) -> Option<(String, &[Violation])> {
        match self {
            InputFailure::Invalid { name, expected, violations } => {
                Some((format!("`{name}` is not a valid {expected}:"), violations))
            }
            InputFailure::NoContext { name, violations } => {
                Some((format!("`{name}` is not a context:"), violations))
            }
            _ => None,
        }
    }
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("  {violation}")).collect::<Vec<_>>().join("\n")
}
