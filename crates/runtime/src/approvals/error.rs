//! Errors of approvals.

use std::borrow::Cow;

use crealeph_contracts::json::ComposeError;
use crealeph_contracts::scalar::{IdentifierError, LedgerId};
use crealeph_decision::builder::review::ReviewError;
use crealeph_ledger::{AppendError, LedgerError};
use crealeph_verify::Finding;

use crate::builder::BuildError;
use crate::review::VerdictError;

/// Why an approval, an enrolment or a rule was not recorded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// There is no such entry.
    #[error("the ledger has no entry `{0}` of this tenant")]
    NoEntry(LedgerId),
    /// It is not a draft.
    #[error(transparent)]
    NotADraft(#[from] ReviewError),
    /// It looks like a draft, and no record names it.
    #[error("no record of the Builder names entry `{0}`, so it is not a draft of the Builder")]
    NotTheBuilders(LedgerId),
    /// It has the key of a held change and is none.
    #[error("entry `{0}` has the key of a held change, and cannot be read as one")]
    NotAChange(LedgerId),
    /// Between the check and the landing a verdict lapsed, or someone rejected it.
    #[error("`{0}` is no longer approved, and did not land")]
    NoLongerApproved(LedgerId),
    /// It was decided before anyone was enrolled.
    #[error("draft `{draft}` has an unproven verdict already, entry `{review}`")]
    Reviewed {
        /// The draft.
        draft: LedgerId,
        /// The entry of the verdict.
        review: LedgerId,
    },
    /// No one was enrolled yet.
    #[error("no one is enrolled in this tenant")]
    NoPeople,
    /// The first admin is there already.
    #[error("this tenant already has a first admin, with the key {0}")]
    NotFirst(String),
    /// A key of no one.
    #[error("the key {0} is not enrolled, or was revoked")]
    UnknownKey(String),
    /// Someone who may not.
    #[error("`{0}` is not in the group `admins`")]
    NotAdmin(String),
    /// A link that no invitation has.
    #[error("the link is not that of an invitation")]
    BadInvitation,
    /// An invitation that can no longer be used.
    #[error("the invitation {0}")]
    InvitationOver(&'static str),
    /// An authenticator's answer that is none.
    #[error("the passkey is refused: {0}")]
    BadPasskey(String),
    /// An outsider would refuse it.
    #[error("refused: the statement {}", .0.what)]
    Refused(Finding),
    /// It does not fit the subject as it is now.
    #[error("the verdict does not count: {reason}")]
    Uncounted {
        /// The stable code.
        code: &'static str,
        /// Why.
        reason: String,
        /// What would help.
        renewal: Option<&'static str>,
    },
    /// It is decided.
    #[error("`{subject}` is {state} already")]
    Ended {
        /// The subject.
        subject: LedgerId,
        /// How it ended.
        state: &'static str,
    },
    /// It was signed over a log that this one is not.
    #[error("the verdict was signed over another state of the log")]
    OtherEvidence,
    /// The log grew faster than it could be read.
    #[error("the log grew each of the {0} times that it was read; nothing was written")]
    Busy(usize),
    /// It cannot be appended to the ledger.
    #[error("cannot append to the ledger; nothing was written: {0}")]
    Unwritten(AppendError),
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The records of an execution could not be read.
    #[error(transparent)]
    Records(#[from] BuildError),
    /// The drafts could not be read.
    #[error(transparent)]
    Drafts(Box<VerdictError>),
    /// A document cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// There is no random number.
    #[error("the system provides no random numbers: {0}")]
    Random(String),
    /// A name is not valid.
    #[error("internal error: an invalid name: {0}; please report it")]
    Name(#[from] IdentifierError),
}

impl From<VerdictError> for ApprovalError {
    fn from(error: VerdictError) -> Self {
        ApprovalError::Drafts(Box::new(error))
    }
}

impl ApprovalError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ApprovalError::NoEntry(_) => "unknown_id",
            ApprovalError::NotADraft(_) | ApprovalError::NotTheBuilders(_) => "not_a_draft",
            ApprovalError::NotAChange(_) => "not_a_change",
            ApprovalError::NoLongerApproved(_) => "not_approved",
            ApprovalError::Reviewed { .. } | ApprovalError::Ended { .. } => "approval_ended",
            ApprovalError::NoPeople => "no_people",
            ApprovalError::NotFirst(_) => "not_first_admin",
            ApprovalError::UnknownKey(_) => "unknown_key",
            ApprovalError::NotAdmin(_) => "not_admin",
            ApprovalError::BadInvitation => "bad_invitation",
            ApprovalError::InvitationOver(_) => "invitation_over",
            ApprovalError::BadPasskey(_) => "bad_passkey",
            ApprovalError::Refused(_) | ApprovalError::OtherEvidence => "approval_refused",
            ApprovalError::Uncounted { .. } => "approval_not_counted",
            ApprovalError::Busy(_) => "ledger_busy",
            ApprovalError::Unwritten(error) => error.code(),
            ApprovalError::Ledger(error) => error.code(),
            ApprovalError::Records(error) => error.code(),
            ApprovalError::Drafts(error) => error.code(),
            ApprovalError::Compose(_) => "too_large",
            ApprovalError::Random(_) => "random",
            ApprovalError::Name(_) => "bad_name",
        }
    }

    /// Whether the request was judged and refused, as opposed to one that could not be executed.
    pub fn is_refusal(&self) -> bool {
        use ApprovalError::{
            BadInvitation, BadPasskey, Ended, InvitationOver, NoEntry, NoLongerApproved, NoPeople,
            NotAChange, NotADraft, NotAdmin, NotFirst, NotTheBuilders, OtherEvidence, Refused, Reviewed,
            Uncounted, UnknownKey,
        };
        matches!(
            self,
            BadInvitation
                | BadPasskey(_)
                | Ended { .. }
                | InvitationOver(_)
                | NoEntry(_)
                | NoLongerApproved(_)
                | NoPeople
                | NotAChange(_)
                | NotADraft(_)
                | NotAdmin(_)
                | NotFirst(_)
                | NotTheBuilders(_)
                | OtherEvidence
                | Refused(_)
                | Reviewed { .. }
                | Uncounted { .. }
                | UnknownKey(_)
        )
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ApprovalError::NoLongerApproved(_) => {
                "see why with `crealeph approval why`, then approve it again"
            }
            ApprovalError::NoEntry(_) => "find what waits with `crealeph inbox`",
            ApprovalError::NoPeople => {
                "enrol the first admin: `crealeph person add NAME --key FILE.pub --first-admin`"
            }
            ApprovalError::NotFirst(_) => "ask an admin to enrol you: `crealeph person add`",
            ApprovalError::UnknownKey(_) => {
                "sign with an enrolled key (--sign-with), or ask an admin to enrol it; see `crealeph person list`"
            }
            ApprovalError::NotAdmin(_) => "ask an admin; see `crealeph person list`",
            ApprovalError::BadInvitation => "open the whole link that you were given",
            ApprovalError::InvitationOver(_) => "ask an admin for a new link: `crealeph person invite`",
            ApprovalError::OtherEvidence => "write the statement again and sign that",
            ApprovalError::Uncounted { renewal: Some(renewal), .. } => renewal,
            ApprovalError::Busy(_) => "try again",
            ApprovalError::Ledger(error) => return error.hint(),
            _ => return None,
        }))
    }
}
