//! Receipts of work runs, checked as an outsider would: form, contract, hash, and the statement that a known key has signed
//! of the very same bytes. What is wrong is named, field by field where the signed copy shows it.

use crealeph_contracts::attestation::{RECEIPT_NAME, Statement};
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_contracts::json::{Limits, Node, ObjectWriter, canonical, parse};
use crealeph_contracts::{Receipt, WorkItem};

use crate::envelope::{self, Opened, quoted};
use crate::export::{Finding, Kind};
use crate::note::VerifierKey;

pub use crealeph_contracts::receipt::MAX_RECEIPT_BYTES;

/// How many unknown fields are named.
const MAX_FIELDS: usize = 20;

/// A receipt that a known key vouches for.
#[derive(Clone, Debug)]
pub struct VerifiedReceipt {
    /// The receipt.
    pub receipt: Valid<Receipt>,
    /// The statement of it: subjects, bounds, admission, walls.
    pub statement: Statement,
    /// The known keys that signed it, by id.
    pub known_signers: Vec<String>,
    /// The signers that are not known, by id; what they signed is not checked.
    pub other_signers: Vec<String>,
}

/// Checks one receipt and the envelope beside it with keys the user already has.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify_receipt(
    receipt: &[u8],
    envelope: &[u8],
    keys: &[VerifierKey],
) -> Result<VerifiedReceipt, Finding> {
    check_opened(receipt, envelope::open(envelope, keys)?)
}

/// The same without a key: receipt and envelope belong together, and nothing is proved about who made them.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_unproven(receipt: &[u8], envelope: &[u8]) -> Result<VerifiedReceipt, Finding> {
    check_opened(receipt, envelope::open_unproven(envelope)?)
}

fn check_opened(receipt: &[u8], opened: Opened) -> Result<VerifiedReceipt, Finding> {
    let signed = opened.statement.predicate.receipt.to_canonical();
    let signed = signed.map_err(|error| changed(format!("the signed statement: {error}")))?;
    if receipt != signed.as_bytes() {
        return Err(changed(difference(receipt, &signed)));
    }
    let receipt = read_receipt(receipt)?;
    check_statement(&opened.statement, &receipt, signed.as_bytes())?;
    let (statement, known_signers) = (opened.statement, opened.known_signers);
    Ok(VerifiedReceipt { receipt, statement, known_signers, other_signers: opened.other_signers })
}

/// Checks a receipt alone: form, contract and hash, without any signature.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_receipt(bytes: &[u8]) -> Result<Valid<Receipt>, Finding> {
    let limits = Limits::own(MAX_RECEIPT_BYTES);
    let (document, faults) = parse(bytes, &limits);
    let document = document.filter(|_| faults.is_empty());
    let document = document.ok_or_else(|| {
        let why = faults.first().map(|fault| format!(" ({})", fault.message)).unwrap_or_default();
        changed(format!("the receipt is not JSON{why}; it was changed"))
    })?;
    if canonical(document.root()).as_bytes() != bytes {
        return Err(changed("the receipt is not in canonical form; it was changed".to_owned()));
    }
    let receipt = Valid::<Receipt>::parse(bytes, &limits).map_err(|violations| {
        let first = violations.as_slice().first();
        let first =
            first.map(|it| format!("{}: {}", quoted(&it.pointer), quoted(&it.message))).unwrap_or_default();
        changed(format!("the receipt breaks its contract at {first}"))
    })?;
    if content_hash(document.root()) != receipt.receipt_hash {
        let what = "`receipt_hash` is not the hash of the rest of the receipt; one of them was changed";
        return Err(changed(what.to_owned()));
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

/// Where a receipt is not the signed one, by field.
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

/// What the statement says beside the receipt must say the same.
fn check_statement(statement: &Statement, receipt: &Receipt, bytes: &[u8]) -> Result<(), Finding> {
    let predicate = &statement.predicate;
    let mut subjects = statement.subject.as_slice().iter();
    let own = subjects.next().filter(|own| own.name.as_str() == RECEIPT_NAME);
    if own.map(|own| &own.digest) != Some(&ContentDigests::of(bytes).into()) {
        return Err(changed(format!("the first subject of the statement is not this `{RECEIPT_NAME}`")));
    }
    for artifact in receipt.artifacts.as_slice().iter().filter(|artifact| artifact.hash.is_some()) {
        let path = artifact.path.as_str();
        let subject = subjects.next().filter(|subject| subject.name.as_str() == path);
        if subject.map(|subject| subject.digest.blake3) != Some(artifact.hash) {
            return Err(changed(format!("the statement and the receipt disagree about {}", quoted(path))));
        }
    }
    if let Some(more) = subjects.find(|subject| subject.digest.git_commit.is_none()) {
        let name = quoted(more.name.as_str());
        return Err(changed(format!("the statement has a subject that the receipt does not know: {name}")));
    }
    let item: Option<&WorkItem> = predicate.work_item.as_ref();
    if item.map(|item| &item.id) != receipt.work_item_id.as_ref() {
        return Err(changed("the statement and the receipt are of different work items".to_owned()));
    }
    if let Some(sandbox) = &predicate.sandbox
        && sandbox.strength != receipt.sandbox_strength
    {
        return Err(changed(
            "the statement and the receipt disagree about the sandbox's strength".to_owned(),
        ));
    }
    Ok(())
}

fn changed(what: String) -> Finding {
    Finding { kind: Kind::Changed, seq: None, what }
}
