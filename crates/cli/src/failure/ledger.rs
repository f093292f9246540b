//! What the ledger refuses or does not have.

use std::borrow::Cow;
use std::path::PathBuf;

use crealeph_ledger::{EntryRefusal, LedgerError};

use super::{JUDGED, NOT_JUDGED};

/// Why a command on the ledger failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerFailure {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("there is no ledger at `{place}`, but there is one in `{}`", .folder.display())]
    LedgerAbove { place: String, folder: PathBuf },
    #[error("the export belongs to tenant `{found}`, not to `{expected}`, and nothing was written")]
    OtherTenant { found: String, expected: String },
    #[error("`{name}` is refused, everything before it is written: {refusal}")]
    Refused { name: String, refusal: Box<EntryRefusal> },
    #[error("there is no entry `{name}` of tenant `{tenant}`")]
    NoEntry { name: String, tenant: String },
    #[error("tenant `{tenant}` has no entry in `{place}` yet")]
    NoLog { tenant: String, place: String },
    #[error("`{name}` proves nothing: {reason}")]
    Unproven { name: String, reason: String },
    #[error("`{}` contains no public key", .0.display())]
    NoKey(PathBuf),
    #[error("the public key cannot be used")]
    VerifierKey(#[source] crealeph_verify::VerifierKeyError),
    #[error("SNAPSHOT_EMPTY: no entry of robot `{0}` counts")]
    SnapshotEmpty(String),
}

impl LedgerFailure {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            LedgerFailure::Ledger(error) => error.code(),
            LedgerFailure::LedgerAbove { .. } => "ledger_missing",
            LedgerFailure::OtherTenant { .. } => "other_tenant",
            LedgerFailure::Refused { refusal, .. } => refusal.code(),
            LedgerFailure::NoEntry { .. } => "unknown_id",
            LedgerFailure::NoLog { .. } => "no_log",
            LedgerFailure::Unproven { .. } => "unproven",
            LedgerFailure::NoKey(_) | LedgerFailure::VerifierKey(_) => "bad_key",
            LedgerFailure::SnapshotEmpty(_) => "SNAPSHOT_EMPTY",
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            LedgerFailure::SnapshotEmpty(_)
            | LedgerFailure::Refused { .. }
            | LedgerFailure::NoEntry { .. }
            | LedgerFailure::Unproven { .. }
            | LedgerFailure::Ledger(LedgerError::BadExport { .. } | LedgerError::Damaged { .. }) => JUDGED,
            _ => NOT_JUDGED,
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            LedgerFailure::LedgerAbove { folder, .. } => format!("go to `{}`", folder.display()).into(),
            LedgerFailure::OtherTenant { found, .. } => format!("use --tenant {found} to import it").into(),
            LedgerFailure::NoEntry { .. } => "check the id and --tenant".into(),
            LedgerFailure::NoLog { .. } => "append something, or check --tenant".into(),
            LedgerFailure::NoKey(_) => "save the output of `crealeph ledger key`".into(),
            LedgerFailure::SnapshotEmpty(_) => {
                "append a signal, fusion, idea, copy, benchmark or playbook, or check the robot and --tenant"
                    .into()
            }
            LedgerFailure::Ledger(error) => return error.hint(),
            LedgerFailure::Refused { .. }
            | LedgerFailure::Unproven { .. }
            | LedgerFailure::VerifierKey(_) => return None,
        })
    }
}
