//! Receipts that were made elsewhere, on a developer's machine or in CI, and whose signers a ledger knows. Owns the entries that
//! enrol and revoke a signer's key, and the form in which a receipt is reported. Their client keys start with `crealeph:`, which
//! was always reserved, and the entries count by those keys.

use crate::contract::read_own;
use crate::digest::Blake3;
use crate::json::JsonObject;
use crate::scalar::{Literal, Text};
use crate::shape::{List, object};
use crate::uuid::Uuid;
use crate::violation::Violation;

/// The type of the entry that enrols a signer's key.
pub const SIGNER_ENROLMENT: Literal = Literal::new("signer_enrolment");
/// The type of the entry that revokes one.
pub const SIGNER_REVOCATION: Literal = Literal::new("signer_revocation");
/// The type of a reported receipt's entry.
pub const REPORTED_RECEIPT: Literal = Literal::new("reported_receipt");
/// How the client key of an enrolment begins; the signer's id follows.
pub const SIGNER_KEY: &str = "crealeph:signer:";
/// The same of a revocation.
pub const REVOKED_SIGNER_KEY: &str = "crealeph:signer-revoked:";
/// How the client key of a reported receipt begins; the run's id follows.
pub const REPORTED_KEY: &str = "crealeph:reported-receipt:";
/// The largest enrolment or revocation.
const MAX_SIGNER_BYTES: usize = 64 << 10;
/// The size limit of a report for any ledger.
const MAX_REPORT_BYTES: usize = 48 << 20;

object! {
    /// A signer's key that is to be enrolled, as a client of the server asks for it.
    SignerRequest / SignerRequestParts ["signer_request", "R4"] {
        /// The public key, as `crealeph work key` prints it.
        key: Text = "key",
        /// Whose it is.
        label: Option<Text> = "label",
    }
}

object! {
    /// Receipts by this key are taken from here on: the payload of the entry.
    SignerEnrolment / SignerEnrolmentParts ["signer_enrolment", "R4"] {
        /// BLAKE3 of the key.
        signer_id: Blake3 = "signerId",
        /// The public key.
        key: Text = "key",
        /// Whose it is.
        label: Option<Text> = "label",
    }
}

object! {
    /// Receipts by this key are no longer taken: the payload of the entry.
    SignerRevocation / SignerRevocationParts ["signer_revocation", "R4"] {
        /// Which.
        signer_id: Blake3 = "signerId",
        /// Why.
        reason: Option<Text> = "reason",
    }
}

object! {
    /// A file that lay beside a receipt, exactly as it was.
    ReportedFile / ReportedFileParts ["reported_receipt", "R4"] {
        /// Its name, by which the signed statement has its digest.
        name: Text = "name",
        /// What is in it, in base64.
        content: Box<str> = "content",
    }
}

object! {
    /// A receipt that was made elsewhere, as it is sent and as its entry holds it.
    ReceiptReport / ReceiptReportParts ["reported_receipt", "R4"] {
        /// The receipt.
        receipt: JsonObject = "receipt",
        /// The signed statement of it, a DSSE envelope.
        envelope: JsonObject = "envelope",
        /// Files of the run that the statement names; those that did not fit are not there.
        files: List<ReportedFile> = "files",
    }
}

impl SignerRequest {
    /// Reads a request strictly, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_SIGNER_BYTES, "R4")
    }
}

impl SignerEnrolment {
    /// What an entry's payload says; `None` if it is none of this.
    pub fn of_payload(payload: &JsonObject) -> Option<Self> {
        let read: Self = read_own(payload.as_str().as_bytes(), MAX_SIGNER_BYTES, "R4").ok()?;
        (Blake3::of(read.key.as_str().as_bytes()) == read.signer_id).then_some(read)
    }

    /// The client key of its entry.
    pub fn client_key(&self) -> String {
        signer_key(&self.signer_id)
    }
}

impl SignerRevocation {
    /// What an entry's payload says; `None` if it is none of this.
    pub fn of_payload(payload: &JsonObject) -> Option<Self> {
        read_own(payload.as_str().as_bytes(), MAX_SIGNER_BYTES, "R4").ok()
    }

    /// The client key of its entry.
    pub fn client_key(&self) -> String {
        revoked_signer_key(&self.signer_id)
    }
}

impl ReceiptReport {
    /// Reads a report strictly, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_REPORT_BYTES, "R4")
    }
}

/// The client key of the entry that enrols a signer.
pub fn signer_key(id: &Blake3) -> String {
    format!("{SIGNER_KEY}{id}")
}

/// The client key of the entry that revokes one.
pub fn revoked_signer_key(id: &Blake3) -> String {
    format!("{REVOKED_SIGNER_KEY}{id}")
}

/// The client key of the entry of a run's reported receipt.
pub fn reported_key(run: &Uuid) -> String {
    format!("{REPORTED_KEY}{run}")
}
