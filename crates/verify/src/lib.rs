//! Checks a ledger as an outsider would: from an export or a proof, and a public key that the user already has. Checks
//! the receipts of work runs the same way: each by itself, their chain, and the states they name.
//!
//! Shares no code with what wrote them; both follow the same published forms (RFC 6962, RFC 8785, C2SP signed-note,
//! tlog-checkpoint and tlog-proof; DSSE, in-toto). Nothing here reads a clock or trusts a key that came with the data.

mod chain;
mod checkpoint;
mod envelope;
mod export;
mod files;
mod inclusion;
mod note;
mod receipt;
mod rules;
mod state;
mod tree;

pub use chain::ReceiptChain;
pub use checkpoint::{Checkpoint, CheckpointError};
pub use export::{ExportVerifier, Finding, Kind, Verified};
pub use files::{CLEANED_NAME, ENVELOPE_NAME, RunFiles, check_folder_name, check_run_files, read_cleaned};
pub use inclusion::{ProofError, ProvenEntry, verify_proof};
pub use note::{KeyError, NoteError, VerifierKey};
pub use receipt::{MAX_RECEIPT_BYTES, VerifiedReceipt, read_receipt, read_unproven, verify_receipt};
pub use state::{StateEntries, StateEntry, check_artifacts, check_states, read_state, state_hash};
pub use tree::{verify_consistency, verify_inclusion};
