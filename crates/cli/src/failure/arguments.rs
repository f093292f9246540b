//! Arguments and variables that cannot be used.

use std::borrow::Cow;

/// What is wrong with how the command was called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentFailure {
    /// The message of the argument parser.
    #[error("{0}")]
    Usage(String),
    #[error("`{value}` is not {expected}")]
    BadOption { value: String, expected: &'static str, hint: Option<&'static str> },
    #[error("`{name}` is not a valid {what}: {reason}")]
    BadName { what: &'static str, name: String, reason: String },
    #[error("`{0}` is not a valid time: {1}")]
    BadInstant(String, &'static str),
    #[error("the robot is missing")]
    RobotMissing,
    #[error("`{0}` is a file, not a known robot")]
    FileForRobot(String),
    #[error("the entries belong to several {what}: {known}")]
    Several { what: &'static str, known: String, flag: &'static str },
    #[error("your name is not known, since USER is not set")]
    NoName,
}

impl ArgumentFailure {
    /// A value that is not what the option takes.
    pub(crate) fn option(value: impl Into<String>, expected: &'static str) -> Self {
        ArgumentFailure::BadOption { value: value.into(), expected, hint: None }
    }

    /// The same, with what to write instead.
    pub(crate) fn option_with_hint(
        value: impl Into<String>,
        expected: &'static str,
        hint: &'static str,
    ) -> Self {
        ArgumentFailure::BadOption { value: value.into(), expected, hint: Some(hint) }
    }

    pub(super) fn code(&self) -> &'static str {
        match self {
            ArgumentFailure::Usage(_) => "usage",
            ArgumentFailure::BadOption { .. } => "bad_option",
            ArgumentFailure::BadName { .. }
            | ArgumentFailure::RobotMissing
            | ArgumentFailure::FileForRobot(_)
            | ArgumentFailure::NoName => "bad_name",
            ArgumentFailure::BadInstant(..) => "bad_timestamp",
            ArgumentFailure::Several { .. } => "ambiguous",
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            ArgumentFailure::BadOption { hint, .. } => return hint.map(Cow::Borrowed),
            ArgumentFailure::RobotMissing => "name one: `crealeph snapshot ROBOT`".into(),
            ArgumentFailure::FileForRobot(name) => {
                format!("read the entries in it with --from {name}").into()
            }
            ArgumentFailure::Several { flag, .. } => format!("choose one with {flag}").into(),
            ArgumentFailure::NoName => "give it with --by".into(),
            ArgumentFailure::Usage(_) | ArgumentFailure::BadName { .. } | ArgumentFailure::BadInstant(..) => {
                return None;
            }
        })
    }
}
