//! What of a report is proved: receipts, and the checkpoint of the log. `crealeph-verify` judges; here its answers become values.

use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::{Seq, StoredEntry};
use crealeph_verify::{
    CLEANED_NAME, Finding, JournalRecord, ReadReceipt, RunFiles, RunFolder, VerifierKey, check_folder_name,
    check_journal, check_run_folder, check_stored_checkpoint, read_unproven, verify_receipt,
};
use serde::{Deserialize, Serialize};

use super::{ReportError, ReportSource};
use crate::work::receipt::{ENVELOPE_FILE, NAME_PREFIX, RECEIPT_FILE, Signer};
use crate::work::{RunReader, RunState, RunSummary, RunsError};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProofStatus {
    /// A key that was checked with has signed it, and everything is as signed.
    Verified,
    /// It is consistent in itself; who signed it is not known.
    Unproven,
    /// Something is wrong, and is named.
    Refused,
    /// There is nothing to check yet.
    Absent,
}

/// What was found of a receipt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptProof {
    /// The result of the check.
    pub status: ProofStatus,
    /// What is wrong, or why nothing could be checked.
    pub detail: Option<String>,
    /// The receipt's hash.
    pub receipt_hash: Option<String>,
    /// The keys that signed it and are known.
    pub signers: Vec<String>,
    /// The files of the run that are the signed ones, the diff among them.
    pub checked_files: Vec<String>,
    /// The files of the run that were removed since.
    pub absent_files: Vec<String>,
    /// Its entry in the log, by sequence number.
    pub entry_seq: Option<u64>,
    /// Whether the checkpoint covers that entry.
    pub is_in_checkpoint: bool,
}

impl ReceiptProof {
    fn new(status: ProofStatus, detail: Option<String>) -> Self {
        ReceiptProof {
            status,
            detail,
            receipt_hash: None,
            signers: Vec::new(),
            checked_files: Vec::new(),
            absent_files: Vec::new(),
            entry_seq: None,
            is_in_checkpoint: false,
        }
    }

    /// The same with the entry that the log has of it.
    pub(super) fn in_log(self, entry: Option<&StoredEntry>, covered_entries: u64) -> Self {
        let entry_seq = entry.map(|entry| entry.seq.get());
        let is_in_checkpoint = entry_seq.is_some_and(|seq| seq <= covered_entries);
        ReceiptProof { entry_seq, is_in_checkpoint, ..self }
    }
}

/// What of a run in a workspace is not what its receipt, or the statement of the held change, says; nothing if everything is, or if
/// there is nothing yet to compare with. Without a signer, and so without keys, nothing is proved about who made the receipt.
///
/// # Errors
/// When something of it cannot be read.
pub fn run_fault(
    reader: &RunReader,
    summary: &RunSummary,
    signer: Option<&Signer>,
    keys: &[VerifierKey],
) -> Result<Option<String>, ReportError> {
    let (proof, _) = of_run(reader, summary, signer, keys)?;
    Ok(proof.detail.filter(|_| proof.status == ProofStatus::Refused))
}

/// Checks the receipt of a run that is in a workspace, with everything next to it. A statement is returned only if it is the
/// receipt's own.
pub(super) fn of_run(
    reader: &RunReader,
    summary: &RunSummary,
    signer: Option<&Signer>,
    keys: &[VerifierKey],
) -> Result<(ReceiptProof, Option<ReadReceipt>), ReportError> {
    match summary.state {
        RunState::Running => return Ok((absent("the run is in progress"), None)),
        RunState::Unsettled => {
            return Ok((absent("its process ended; `crealeph work recover` finishes it"), None));
        }
        RunState::Held => return Ok((held(reader, signer, &summary.run)?, None)),
        RunState::Ended(_) | RunState::Interrupted => {}
    }
    let receipt = reader.file(&summary.run, RECEIPT_FILE)?;
    let envelope = reader.file(&summary.run, ENVELOPE_FILE)?;
    let (Some(receipt), Some(envelope)) = (receipt, envelope) else {
        let missing = "its receipt or the signed statement next to it is missing".to_owned();
        return Ok((ReceiptProof::new(ProofStatus::Refused, Some(missing)), None));
    };
    let keys = receipt_keys(keys);
    let opened = match OpenedReceipt::open(&receipt, &envelope, &keys) {
        Ok(opened) => opened,
        Err(finding) => return Ok((refused(finding), None)),
    };
    let proof = match check_beside(reader, summary, &opened.read, &keys) {
        Ok(beside) => {
            ReceiptProof { checked_files: beside.checked, absent_files: beside.absent, ..opened.proof() }
        }
        Err(RunStop::Finding(finding)) => refused(finding),
        Err(RunStop::Runs(error)) => return Err(error.into()),
    };
    Ok((proof, Some(opened.read)))
}

/// Something of a run is wrong, or cannot be read.
enum RunStop {
    Finding(Finding),
    Runs(RunsError),
}

impl From<Finding> for RunStop {
    fn from(finding: Finding) -> Self {
        RunStop::Finding(finding)
    }
}

impl From<RunsError> for RunStop {
    fn from(error: RunsError) -> Self {
        RunStop::Runs(error)
    }
}

/// Checks a receipt against everything in its run's folder, and against the journal.
fn check_beside(
    reader: &RunReader,
    summary: &RunSummary,
    read: &ReadReceipt,
    keys: &[VerifierKey],
) -> Result<RunFiles, RunStop> {
    check_folder_name(read, &summary.run.to_string())?;
    let folder = reader.folder(&summary.run);
    let content = |name: &str| match std::fs::symlink_metadata(folder.join(name)) {
        // A link or a folder is not what the run left.
        Ok(metadata) if !metadata.is_file() => Ok(None),
        _ => Ok(reader.file(&summary.run, name)?),
    };
    let names = reader.names(&summary.run)?;
    let beside = check_run_folder::<RunStop>(
        read,
        RunFolder { names: &names, is_alone: false },
        (!keys.is_empty()).then_some(keys),
        content,
        || content(CLEANED_NAME),
    )?;
    let receipt_hash = summary.receipt_hash.map(|hash| hash.to_string());
    let journal = JournalRecord {
        receipt_hash: receipt_hash.as_deref(),
        outcome: summary.state.as_str(),
        is_success: summary.state == RunState::Ended(RunStatus::Success),
    };
    check_journal(read, &journal)?;
    Ok(beside)
}

/// Checks the receipt that an entry of the log holds.
pub(super) fn of_entry(
    receipt: &str,
    envelope: &str,
    keys: &[VerifierKey],
) -> (ReceiptProof, Option<ReadReceipt>) {
    match OpenedReceipt::open(receipt.as_bytes(), envelope.as_bytes(), &receipt_keys(keys)) {
        Ok(opened) => (opened.proof(), Some(opened.read)),
        Err(finding) => (refused(finding), None),
    }
}

/// Says that there is nothing to check, and why.
pub(super) fn absent(why: &str) -> ReceiptProof {
    ReceiptProof::new(ProofStatus::Absent, Some(why.to_owned()))
}

/// The keys that sign receipts, of all that are known.
fn receipt_keys(keys: &[VerifierKey]) -> Vec<VerifierKey> {
    keys.iter().filter(|key| key.name().starts_with(NAME_PREFIX)).cloned().collect()
}

/// A receipt that belongs to its statement, and the keys that have signed it, if there were any to check with.
struct OpenedReceipt {
    read: ReadReceipt,
    signers: Option<Vec<String>>,
}

impl OpenedReceipt {
    fn open(receipt: &[u8], envelope: &[u8], keys: &[VerifierKey]) -> Result<OpenedReceipt, Finding> {
        if keys.is_empty() {
            return Ok(OpenedReceipt { read: read_unproven(receipt, envelope)?, signers: None });
        }
        let verified = verify_receipt(receipt, envelope, keys)?;
        Ok(OpenedReceipt { read: verified.read, signers: Some(verified.known_signers) })
    }

    fn proof(&self) -> ReceiptProof {
        let status = if self.signers.is_some() { ProofStatus::Verified } else { ProofStatus::Unproven };
        ReceiptProof {
            receipt_hash: Some(self.read.receipt.receipt_hash.to_string()),
            signers: self.signers.iter().flatten().cloned().collect(),
            ..ReceiptProof::new(status, None)
        }
    }
}

fn refused(finding: Finding) -> ReceiptProof {
    ReceiptProof::new(ProofStatus::Refused, Some(finding.what))
}

/// A change that is held has no receipt yet, and a statement of what was held.
fn held(reader: &RunReader, signer: Option<&Signer>, run: &Uuid) -> Result<ReceiptProof, ReportError> {
    let Some(signer) = signer else { return Ok(absent("it awaits approval")) };
    Ok(match reader.held_fault(run, signer)? {
        None => absent("it awaits approval, and is as it was when it was held"),
        Some(what) => {
            let what = format!("{what} was altered since the change was held");
            ReceiptProof::new(ProofStatus::Refused, Some(what))
        }
    })
}

/// What was found of the log.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogProof {
    /// The tenant.
    pub tenant_id: String,
    /// The log's name.
    pub origin: String,
    /// How many entries it has.
    pub entries: u64,
    /// The root of its tree.
    pub root: String,
    /// Its newest checkpoint; absent if none was signed.
    pub checkpoint: Option<CheckpointProof>,
}

/// What was found of a checkpoint.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointProof {
    /// The result of the check.
    pub status: ProofStatus,
    /// What is wrong.
    pub detail: Option<String>,
    /// How many entries it covers.
    pub entries: u64,
}

impl LogProof {
    /// How many entries a checkpoint covers that was not refused.
    pub(super) fn covered_entries(&self) -> u64 {
        let good = self.checkpoint.as_ref().filter(|it| it.status != ProofStatus::Refused);
        good.map_or(0, |checkpoint| checkpoint.entries)
    }
}

/// The log and its newest checkpoint, checked against the root that the log has at that place.
pub(super) fn log(source: &ReportSource<'_>) -> Result<Option<LogProof>, ReportError> {
    let Some((ledger, tenant)) = source.log else { return Ok(None) };
    let newest = ledger.checkpoints(tenant)?.pop();
    let size = newest.as_ref().and_then(|checkpoint| Seq::new(checkpoint.size));
    let read = ledger.view(tenant, |view| {
        let root = size.map_or(Ok(None), |size| view.root_at(size))?;
        Ok((view.place(), root))
    })?;
    let Some((place, root_then)) = read else { return Ok(None) };
    let keys: Vec<VerifierKey> =
        source.keys.iter().filter(|key| key.name() == place.origin).cloned().collect();
    let checkpoint = newest.map(|checkpoint| {
        let stated = (checkpoint.size, checkpoint.root);
        let (status, detail) = match check_stored_checkpoint(&checkpoint.note, stated, root_then, &keys) {
            Ok(Some(_)) => (ProofStatus::Verified, None),
            Ok(None) => (ProofStatus::Unproven, None),
            Err(finding) => (ProofStatus::Refused, Some(finding.what)),
        };
        CheckpointProof { status, detail, entries: checkpoint.size }
    });
    Ok(Some(LogProof {
        tenant_id: tenant.to_string(),
        origin: place.origin,
        entries: place.seq.get(),
        root: place.root.to_string(),
        checkpoint,
    }))
}
