//! Checks a ledger as an outsider would: from an export or a proof, and a public key that the user already has. Checks
//! the receipts of work runs the same way: each by itself, their chain, and the states they name; and the statements that people signed.
//!
//! All judging of evidence is here; callers read files and print the results. Both sides follow the same published formats
//! (RFC 6962, RFC 8785, C2SP signed-note, tlog-checkpoint and tlog-proof; DSSE, in-toto), and share no code but `contracts`:
//! its types, its parser and its canonical JSON. Nothing here opens a file, reads a clock or trusts a key that came with the data.

mod access;
mod approvals;
mod artifacts;
mod chain;
mod checkpoint;
mod envelope;
mod export;
mod files;
mod finding;
mod held_changes;
mod inclusion;
mod invitations;
mod note;
mod page;
mod passkey;
mod receipt;
mod reported;
mod rules;
mod ssh;
mod state;
mod tree;
mod webhooks;

pub use access::AccessLog;
pub use approvals::{ApprovalLog, EnrolledPerson, KeyMaterial, PersonKeyState};
pub use artifacts::{ArtifactCheck, check_folder_artifacts, check_stored_artifacts};
pub use chain::{ChainPosition, ReceiptChain};
pub use checkpoint::{Checkpoint, CheckpointError, check_stored_checkpoint};
pub use export::{ExportVerifier, VerifiedExport};
pub use files::{CLEANED_NAME, RunFiles, RunFolder, check_folder_name, check_run_folder};
pub use finding::{Finding, FindingKind};
pub use inclusion::{ProofError, ProvenEntry, verify_proof};
pub use invitations::{EnrolledPasskey, SignedInPerson};
pub use note::{NoteError, VerifierKey, VerifierKeyError};
pub use page::{VERIFIER_MODULES, verifier_page, verifier_script};
pub use passkey::{NewPasskey, Passkey, PasskeyError, read_new_passkey};
pub use receipt::{
    JournalRecord, MAX_RECEIPT_BYTES, ReadReceipt, VerifiedReceipt, check_journal, read_receipt,
    read_unproven, verify_receipt,
};
pub use reported::{SignerLog, reported_files};
pub use ssh::{PersonKey, PersonKeyError, SignatureError, SignatureFacts, claimed_signer, verify_signature};
pub use state::{StateEntries, StateEntry, read_state, state_hash};
pub use tree::{verify_consistency, verify_inclusion};
