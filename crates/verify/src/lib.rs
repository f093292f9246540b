//! Checks a ledger as an outsider would: from an export or a proof, and a public key that the user already has.
//!
//! Shares no code with the ledger that wrote them; both follow the same published forms (RFC 6962, RFC 8785, C2SP
//! signed-note, tlog-checkpoint and tlog-proof). Nothing here reads a clock or trusts a key that came with the data.

mod checkpoint;
mod export;
mod inclusion;
mod note;
mod tree;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use export::{ExportVerifier, Finding, Kind, Verified};
pub use inclusion::{ProofError, ProvenEntry, verify_proof};
pub use note::{KeyError, NoteError, VerifierKey};
pub use tree::{verify_consistency, verify_inclusion};
