//! Receipts of work runs, checked as an outsider would: form, contract, hash, and the statement that a known key has signed
//! of the very same bytes. Problems are named, field by field if the signed copy shows it.

use crealeph_contracts::attestation::{RECEIPT_NAME, Statement};
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_contracts::json::{Limits, Node, ObjectWriter, canonical, parse};
use crealeph_contracts::provenance::VerdictWord;
use crealeph_contracts::receipt::ReceiptStatus;
use crealeph_contracts::{Receipt, WorkItem};

use crate::artifacts::stated_digests;
use crate::envelope::{self, Opened, quoted};
use crate::finding::Finding;
use crate::note::VerifierKey;

pub use crealeph_contracts::receipt::MAX_RECEIPT_BYTES;

/// How many unknown fields are named.
const MAX_FIELDS: usize = 20;

/// A receipt and the statement about it, which belong together. Nothing is proved about who made them.
#[derive(Clone, Debug)]
pub struct ReadReceipt {
    /// The receipt.
    pub receipt: Valid<Receipt>,
    /// The statement about it: subjects, limits, admission, sandbox.
    pub statement: Statement,
}

/// A receipt that a known key vouches for.
#[derive(Clone, Debug)]
pub struct VerifiedReceipt {
    /// The receipt and the signed statement.
    pub read: ReadReceipt,
    /// The known keys that signed it, by id.
    pub known_signers: Vec<String>,
    /// The signers that are not known, by id; their signatures are not checked.
    pub other_signers: Vec<String>,
}

/// Checks one receipt and the envelope next to it with keys that the user already has.
///
/// # Errors
/// The first problem.
pub fn verify_receipt(
    receipt: &[u8],
    envelope: &[u8],
    keys: &[VerifierKey],
) -> Result<VerifiedReceipt, Finding> {
    let Opened { statement, known_signers, other_signers } = envelope::open(envelope, keys)?;
    Ok(VerifiedReceipt { read: check_stated(receipt, statement)?, known_signers, other_signers })
}

/// The same without a key: receipt and envelope belong together, and nothing is proved about who made them.
///
/// # Errors
/// The first problem.
pub fn read_unproven(receipt: &[u8], envelope: &[u8]) -> Result<ReadReceipt, Finding> {
    check_stated(receipt, envelope::open_unproven(envelope)?)
}

fn check_stated(receipt: &[u8], statement: Statement) -> Result<ReadReceipt, Finding> {
    let signed = statement.predicate.receipt.to_canonical();
    let signed = signed.map_err(|error| Finding::changed(format!("the signed statement: {error}")))?;
    if receipt != signed.as_bytes() {
        return Err(Finding::changed(difference(receipt, &signed)));
    }
    let receipt = read_receipt(receipt)?;
    check_statement(&statement, &receipt, signed.as_bytes())?;
    Ok(ReadReceipt { receipt, statement })
}

/// What the journal of a workspace says about a run that ended.
#[derive(Clone, Copy, Debug)]
pub struct JournalRecord<'j> {
    /// The hash of its receipt.
    pub receipt_hash: Option<&'j str>,
    /// Its status, in the journal's word.
    pub outcome: &'j str,
    /// Whether that is a success.
    pub is_success: bool,
}

/// Checks that a receipt is the one that the journal of its workspace names, and has the same status.
///
/// # Errors
/// If it is another, or has another status.
pub fn check_journal(read: &ReadReceipt, journal: &JournalRecord<'_>) -> Result<(), Finding> {
    let receipt = &read.receipt;
    if journal.receipt_hash != Some(receipt.receipt_hash.to_string().as_str()) {
        return Err(Finding::changed("its receipt is not the one that the journal names"));
    }
    if journal.is_success != (receipt.status == ReceiptStatus::Succeeded) {
        let what = format!("the journal says `{}`, and its receipt `{}`", journal.outcome, receipt.status);
        return Err(Finding::changed(what));
    }
    Ok(())
}

/// Checks a receipt alone: form, contract and hash, without any signature.
///
/// # Errors
/// The first problem.
pub fn read_receipt(bytes: &[u8]) -> Result<Valid<Receipt>, Finding> {
    let limits = Limits::own(MAX_RECEIPT_BYTES);
    let (document, faults) = parse(bytes, &limits);
    let document = document.filter(|_| faults.is_empty());
    let document = document.ok_or_else(|| {
        Finding::changed(match faults.first() {
            Some(fault) => format!("the receipt is not JSON ({}); it was changed", fault.message),
            None => "the receipt is not JSON; it was changed".to_owned(),
        })
    })?;
    if canonical(document.root()).as_bytes() != bytes {
        return Err(Finding::changed("the receipt is not in canonical form; it was changed"));
    }
    let receipt = Valid::<Receipt>::parse(bytes, &limits).map_err(|violations| {
        Finding::changed(match violations.as_slice().first() {
            Some(first) => {
                let (place, message) = (quoted(&first.pointer), quoted(&first.message));
                format!("the receipt breaks its contract at {place}: {message}")
            }
            None => "the receipt breaks its contract".to_owned(),
        })
    })?;
    if content_hash(document.root()) != receipt.receipt_hash {
        let what = "`receipt_hash` is not the hash of the rest of the receipt; one of them was changed";
        return Err(Finding::changed(what));
    }
    Ok(receipt)
}

/// The BLAKE3 of a canonical receipt without its `receipt_hash`.
fn content_hash(receipt: Node<'_>) -> Blake3 {
    let mut rest = String::with_capacity(receipt.source().len());
    let mut object = ObjectWriter::new(&mut rest);
    for (key, value) in receipt.members() {
        let key = key.text_value();
        if key != "receipt_hash" {
            object.raw(&key, value.source());
        }
    }
    object.end();
    Blake3::of(rest.as_bytes())
}

/// Where a receipt differs from the signed one, by field.
fn difference(receipt: &[u8], signed: &str) -> String {
    let limits = Limits::own(MAX_RECEIPT_BYTES);
    let (found, faults) = parse(receipt, &limits);
    let (stated, _) = parse(signed.as_bytes(), &Limits::own(usize::MAX));
    let (Some(found), Some(stated), true) = (&found, &stated, faults.is_empty()) else {
        let at = receipt.iter().zip(signed.as_bytes()).take_while(|(one, other)| one == other).count();
        return format!("the receipt is not JSON; it differs from the signed one from byte {at} on");
    };
    let (found, stated) = (found.root(), stated.root());
    let mut fields: Vec<String> = Vec::new();
    for (key, value) in stated.members() {
        let key = key.text_value();
        let is_same = found.member(&key).is_some_and(|it| canonical(it) == canonical(value));
        if !is_same {
            fields.push(quoted(&key));
        }
    }
    let unknown = found.members().map(|(key, _)| key.text_value());
    fields
        .extend(unknown.filter(|key| stated.member(key).is_none()).take(MAX_FIELDS).map(|key| quoted(&key)));
    match fields.is_empty() {
        true => "the receipt is not in canonical form; it was changed".to_owned(),
        false => format!("the receipt is not the signed one: {} was changed", fields.join(", ")),
    }
}

/// The statement's facts about the receipt must match it.
fn check_statement(statement: &Statement, receipt: &Receipt, bytes: &[u8]) -> Result<(), Finding> {
    let predicate = &statement.predicate;
    let mut subjects = statement.subject.as_slice().iter();
    let own = subjects.next().filter(|own| own.name.as_str() == RECEIPT_NAME);
    if own.map(stated_digests).transpose()? != Some(ContentDigests::of(bytes)) {
        let what = format!("the first subject of the statement is not this `{RECEIPT_NAME}`");
        return Err(Finding::changed(what));
    }
    for artifact in receipt.artifacts.as_slice().iter().filter(|artifact| artifact.hash.is_some()) {
        let path = artifact.path.as_str();
        let subject = subjects.next().filter(|subject| subject.name.as_str() == path);
        if subject.map(stated_digests).transpose()?.map(|digests| digests.blake3) != artifact.hash {
            let what = format!("the statement and the receipt disagree about {}", quoted(path));
            return Err(Finding::changed(what));
        }
    }
    if let Some(more) = subjects.find(|subject| subject.digest.git_commit.is_none()) {
        let name = quoted(more.name.as_str());
        let what = format!("the statement has a subject that the receipt does not know: {name}");
        return Err(Finding::changed(what));
    }
    let item: Option<&WorkItem> = predicate.work_item.as_ref();
    if item.map(|item| &item.id) != receipt.work_item_id.as_ref() {
        return Err(Finding::changed("the statement and the receipt are of different work items"));
    }
    let mut verdicts = predicate.verdicts.iter().flat_map(|verdicts| verdicts.as_slice());
    let is_rejected = verdicts.any(|verdict| verdict.decision == VerdictWord::Rejected);
    if is_rejected && receipt.status == ReceiptStatus::Succeeded {
        let what = "the statement says that the change was rejected, and the receipt that it landed";
        return Err(Finding::changed(what));
    }
    if let Some(sandbox) = &predicate.sandbox
        && sandbox.strength != receipt.sandbox_strength
    {
        let what = "the statement and the receipt disagree about the sandbox's strength";
        return Err(Finding::changed(what));
    }
    Ok(())
}
