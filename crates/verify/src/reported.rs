//! Receipts that were reported to a ledger, as an outsider judges them: by a key that was enrolled before and not revoked, with files
//! that the signed statement names. The ledger's own writer uses the same judge before it appends.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::Entry;
use crealeph_contracts::api_key::ACCESS;
use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_contracts::reported::{
    REPORTED_KEY, REVOKED_SIGNER_KEY, ReceiptReport, SIGNER_KEY, SignerEnrolment, SignerRevocation,
    reported_key,
};

use crate::artifacts::stated_digests;
use crate::envelope::quoted;
use crate::finding::{Finding, FindingKind};
use crate::note::VerifierKey;
use crate::receipt::{ReadReceipt, VerifiedReceipt, verify_receipt};

/// The signers that a log has enrolled so far.
#[derive(Clone, Debug, Default)]
pub struct SignerLog(BTreeMap<Blake3, Option<VerifierKey>>);

fn invalid(what: &str) -> Finding {
    Finding::new(FindingKind::Invalid, what)
}

impl SignerLog {
    /// Judges the next entry of the log, and remembers it; entries that are not about signers or reported receipts pass.
    ///
    /// # Errors
    /// If an honest ledger would not have accepted it.
    pub fn add(&mut self, entry: &Entry) -> Result<(), Finding> {
        let Some(key) = entry.key.as_ref().map(|key| key.as_str()) else { return Ok(()) };
        let is_signers = key.starts_with(SIGNER_KEY) || key.starts_with(REVOKED_SIGNER_KEY);
        if !is_signers && !key.starts_with(REPORTED_KEY) {
            return Ok(());
        }
        let payload = entry.payload.as_ref().ok_or_else(|| invalid("has no payload"))?;
        if key.starts_with(REPORTED_KEY) {
            let report = ReceiptReport::parse(payload.as_str().as_bytes());
            let report = report.map_err(|_| invalid("is a reported receipt and cannot be read"))?;
            let verified = self.judge(&report)?;
            return match reported_key(&verified.read.receipt.id) == key {
                true => Ok(()),
                false => Err(invalid("holds the receipt of another run than its key names")),
            };
        }
        if entry.module.as_ref().is_none_or(|module| module.as_str() != ACCESS.as_str()) {
            return Err(invalid("has the key of a signer under another module"));
        }
        if let Some(enrolment) = SignerEnrolment::of_payload(payload).filter(|it| it.client_key() == key) {
            let parsed = VerifierKey::parse(enrolment.key.as_str());
            let parsed = parsed.map_err(|error| invalid(&format!("enrols no signer's key: {error}")))?;
            self.0.insert(enrolment.signer_id, Some(parsed));
            return Ok(());
        }
        let revocation = SignerRevocation::of_payload(payload).filter(|it| it.client_key() == key);
        let revocation = revocation.ok_or_else(|| invalid("is about a signer and cannot be read"))?;
        match self.0.insert(revocation.signer_id, None) {
            Some(_) => Ok(()),
            None => Err(invalid("revokes a signer that was not enrolled before")),
        }
    }

    /// The keys that are enrolled and not revoked.
    pub fn keys(&self) -> impl Iterator<Item = &VerifierKey> {
        self.0.values().flatten()
    }

    /// Checks a report with the keys that are enrolled and not revoked.
    ///
    /// # Errors
    /// The first problem.
    pub fn judge(&self, report: &ReceiptReport) -> Result<VerifiedReceipt, Finding> {
        let keys: Vec<VerifierKey> = self.keys().cloned().collect();
        let (receipt, envelope) = (report.receipt.canonical(), report.envelope.canonical());
        let verified = verify_receipt(receipt.as_bytes(), envelope.as_bytes(), &keys)?;
        reported_files(report, &verified.read)?;
        Ok(verified)
    }
}

/// The files of a report by name, each as the signed statement names it.
///
/// # Errors
/// The first one that is not.
pub fn reported_files(report: &ReceiptReport, read: &ReadReceipt) -> Result<Vec<(String, Vec<u8>)>, Finding> {
    let stated = read.statement.predicate.files.as_ref().map_or(&[][..], |files| files.as_slice());
    let (mut seen, mut files) = (BTreeSet::new(), Vec::new());
    for file in report.files.as_slice() {
        let name = file.name.as_str();
        let bytes = STANDARD.decode(file.content.as_bytes());
        let bytes =
            bytes.map_err(|_| Finding::changed(format!("the file {} is not base64", quoted(name))))?;
        let known = stated.iter().find(|subject| subject.name.as_str() == name);
        let digests = known.map(stated_digests).transpose()?;
        if !seen.insert(name) || digests != Some(ContentDigests::of(&bytes)) {
            let what = format!("the file {} is not one that the signed statement names", quoted(name));
            return Err(Finding::changed(what));
        }
        files.push((name.to_owned(), bytes));
    }
    Ok(files)
}
