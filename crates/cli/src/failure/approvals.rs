//! What cannot be approved, enrolled or signed.

use std::borrow::Cow;
use std::path::PathBuf;

use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::approvals::{ApprovalError, RulesTextError};

use super::{JUDGED, NOT_JUDGED};

/// Why a command about approvals failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovalFailure {
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    #[error(transparent)]
    Signing(#[from] SigningFailure),
    #[error("`{name}` is not a valid rules file: {error}")]
    Rules { name: String, error: RulesTextError },
    #[error("a name given with --by proves nothing, and people are enrolled in this tenant")]
    ByRefused,
    #[error(
        "no one is enrolled, so run `{0}` can be decided only in its workspace, and this is another folder"
    )]
    NotHere(Uuid),
    #[error("an approval must be confirmed, and there is no terminal to ask on")]
    NobodyToAsk,
    #[error("the approvals are based on the key {found}, not on the one given with --root")]
    OtherRoot { found: String },
}

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningFailure {
    #[error("there is no enrolled key to sign with")]
    NoKey,
    #[error("cannot sign with `{}`: {reason}", .path.display())]
    BadKey { path: PathBuf, reason: String },
    #[error("`{}` has a passphrase or is a hardware key, and no ssh-agent holds it", .0.display())]
    NeedsAgent(PathBuf),
    #[error("the private key of {0} is neither next to it nor in ssh-agent")]
    NotHeld(String),
    #[error("ssh-agent failed: {0}")]
    Agent(String),
    #[error("the statement is not signed: {0}")]
    Unsigned(String),
}

impl ApprovalFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            ApprovalFailure::Approval(error) => error.code(),
            ApprovalFailure::Signing(SigningFailure::NoKey | SigningFailure::NotHeld(_)) => "no_signing_key",
            ApprovalFailure::Signing(SigningFailure::BadKey { .. }) => "bad_key",
            ApprovalFailure::Signing(SigningFailure::NeedsAgent(_) | SigningFailure::Agent(_)) => "ssh_agent",
            ApprovalFailure::Signing(SigningFailure::Unsigned(_)) => "bad_signature",
            ApprovalFailure::Rules { .. } => "bad_rules",
            ApprovalFailure::ByRefused => "unsigned",
            ApprovalFailure::NotHere(_) => "not_here",
            ApprovalFailure::NobodyToAsk => "nobody_to_ask",
            ApprovalFailure::OtherRoot { .. } => "other_root",
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        let is_refusal = match self {
            ApprovalFailure::Approval(error) => error.is_refusal(),
            ApprovalFailure::Signing(SigningFailure::Unsigned(_))
            | ApprovalFailure::ByRefused
            | ApprovalFailure::NotHere(_)
            | ApprovalFailure::OtherRoot { .. } => true,
            _ => false,
        };
        if is_refusal { JUDGED } else { NOT_JUDGED }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ApprovalFailure::Approval(error) => return error.hint(),
            ApprovalFailure::Signing(SigningFailure::NoKey) => {
                "name it with --sign-with FILE, or add it to ssh-agent with `ssh-add`"
            }
            ApprovalFailure::Signing(SigningFailure::NeedsAgent(path)) => {
                return Some(Cow::Owned(format!("add it with `ssh-add {}`", path.display())));
            }
            ApprovalFailure::Signing(SigningFailure::NotHeld(_)) => {
                "name the private key with --sign-with, or add it to ssh-agent with `ssh-add`"
            }
            ApprovalFailure::Signing(SigningFailure::Agent(_)) => "check SSH_AUTH_SOCK, and `ssh-add -l`",
            ApprovalFailure::ByRefused => "leave --by out; your key says who you are",
            ApprovalFailure::NotHere(_) => "name its folder with --workspace",
            ApprovalFailure::NobodyToAsk => {
                "run it at a terminal; or add --yes, which marks it unattended, if the rule counts those"
            }
            ApprovalFailure::OtherRoot { .. } => {
                "do not trust them; ask the person who gave you the fingerprint"
            }
            ApprovalFailure::Signing(_) | ApprovalFailure::Rules { .. } => return None,
        }))
    }
}
