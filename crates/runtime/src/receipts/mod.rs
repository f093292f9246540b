//! Receipts of work runs as a log has them: those of the ledger's own workspaces, and those that were reported from elsewhere by a
//! signer whose key an admin enrolled. Reported ones are only for reading; nothing counts them.

mod log;
mod outbox;
mod reported;
mod signers;

pub use log::{LoggedRun, LoggedRunReport, RunFileError, RunLogQuery, run_of_log, runs_of_log};
pub use outbox::{Outbox, OutboxError, SentReports};
pub use reported::{ReceiptReportError, record_report};
pub use signers::{SignerEnrolmentError, SignerReport, add_signer, known_keys, list_signers, revoke_signer};
