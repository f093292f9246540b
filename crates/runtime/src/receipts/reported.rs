//! A receipt that was made elsewhere: verified with the keys that are enrolled, and recorded once. The check and the entry are one
//! step: if the log has grown in between, it is checked again, so that no entry follows the revocation of its key.

use std::borrow::Cow;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{ComposeError, JsonObject};
use crealeph_contracts::receipt::ReceiptStatus;
use crealeph_contracts::reported::{REPORTED_RECEIPT, ReceiptReport, reported_key};
use crealeph_contracts::scalar::{ClientKey, IdentifierError, Literal, Name, RobotId, TenantId};
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::{AppendError, AppendedEntry, EntryRefusal, Ledger, LedgerError, StoredEntry};
use crealeph_verify::{Finding, ReadReceipt};

use super::log::reported_hash;
use super::signers::signer_log;
use crate::work::receipt::{NO_ROBOT, WORK_MODULE};

/// How often a log that grows is read again.
const MAX_READS: usize = 100;

/// Why a receipt was not recorded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptReportError {
    /// It does not verify.
    #[error("the receipt was refused: {}", .0.what)]
    Refused(Finding),
    /// The ledger has another receipt of this run.
    #[error("another receipt of run `{0}` was reported before")]
    Another(Uuid),
    /// The log grew faster than it could be read.
    #[error("the log grew each of the {0} times that it was read; nothing was written")]
    Busy(usize),
    /// It cannot be appended to the ledger.
    #[error("cannot append to the ledger; nothing was written: {0}")]
    Unwritten(AppendError),
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A document cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A name is not valid.
    #[error("internal error: an invalid name: {0}; please report it")]
    Name(#[from] IdentifierError),
}

impl ReceiptReportError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ReceiptReportError::Refused(_) => "receipt_refused",
            ReceiptReportError::Another(_) => "IDEMPOTENCY_CONFLICT",
            ReceiptReportError::Busy(_) => "ledger_busy",
            ReceiptReportError::Unwritten(error) => error.code(),
            ReceiptReportError::Ledger(error) => error.code(),
            ReceiptReportError::Compose(_) => "too_large",
            ReceiptReportError::Name(_) => "bad_name",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            ReceiptReportError::Refused(_) => Some(
                "an admin enrols the key that `crealeph work key` prints where the receipt was made, with `crealeph signer add`".into(),
            ),
            ReceiptReportError::Ledger(error) => error.hint(),
            _ => None,
        }
    }
}

/// Verifies a receipt and records it, for a robot if the reporter is one's. The same again is the same entry.
///
/// # Errors
/// When no enrolled key has signed it, something in it is not as signed, or the ledger cannot be written.
pub fn record_report(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    report: &ReceiptReport,
) -> Result<AppendedEntry, ReceiptReportError> {
    for _ in 0..MAX_READS {
        let (signers, end) = signer_log(ledger, tenant)?;
        let read = signers.judge(report).map_err(ReceiptReportError::Refused)?.read;
        let run = read.receipt.id;
        let key = ClientKey::parse(&reported_key(&run))?;
        if let Some(StoredEntry { id, seq, created_at, .. }) = same(ledger, tenant, &key, &read)? {
            return Ok(AppendedEntry { id, seq, created_at, is_repeat: true });
        }
        let draft = draft(robot, report, &read, key)?;
        match ledger.append_at(tenant, end, vec![(None, draft)]) {
            Err(AppendError::Refused { refusal: EntryRefusal::Moved { .. }, .. }) => {}
            Err(AppendError::Ledger(error)) => return Err(error.into()),
            Err(error) => return Err(ReceiptReportError::Unwritten(error)),
            Ok(written) => return written.into_iter().next().ok_or(LedgerError::Closed.into()),
        }
    }
    Err(ReceiptReportError::Busy(MAX_READS))
}

/// The entry of this very receipt, if it was reported before.
fn same(
    ledger: &Ledger,
    tenant: &TenantId,
    key: &ClientKey,
    read: &ReadReceipt,
) -> Result<Option<StoredEntry>, ReceiptReportError> {
    let Some(entry) = ledger.get_by_key(tenant, key)? else { return Ok(None) };
    match reported_hash(&entry) == Some(read.receipt.receipt_hash) {
        true => Ok(Some(entry)),
        false => Err(ReceiptReportError::Another(read.receipt.id)),
    }
}

fn draft(
    robot: Option<&RobotId>,
    report: &ReceiptReport,
    read: &ReadReceipt,
    key: ClientKey,
) -> Result<Draft, ReceiptReportError> {
    let state = match read.receipt.status {
        ReceiptStatus::Succeeded => Literal::new("succeeded"),
        ReceiptStatus::Failed => Literal::new("failed"),
    };
    Ok(Draft {
        robot_id: robot.cloned().unwrap_or_else(|| NO_ROBOT.into()),
        module: WORK_MODULE.into(),
        source: Name::parse(read.receipt.agent_id.as_str())?,
        kind: Name::from(REPORTED_RECEIPT),
        state: Name::from(state),
        payload: JsonObject::of("the reported receipt", report)?,
        lineage: None,
        observed_at: None,
        key: Some(key),
    })
}
