//! Reads the files of a run's folder, within bounds and never through a link, for `crealeph-verify` to judge.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use crealeph_contracts::run_result::RunStatus;
use crealeph_runtime::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE, Signer};
use crealeph_runtime::work::{RunReader, RunState, RunSummary, WorkError};
use crealeph_verify::{
    CLEANED_NAME, Finding, JournalRecord, MAX_RECEIPT_BYTES, RunFiles, RunFolder, VerifiedReceipt,
    VerifierKey, check_folder_name, check_journal, check_run_folder, read_unproven, verify_receipt,
};

use super::key::control;
use super::workspace_args::WorkspaceArgs;
use crate::failure::{ArgumentFailure, Failure, InputFailure, LedgerFailure, WorkFailure};

/// More than an envelope around the largest receipt.
const MAX_ENVELOPE_BYTES: usize = 4 * MAX_RECEIPT_BYTES;
/// The largest file of a run that is read.
const MAX_FILE_BYTES: usize = 256 << 20;
/// How many names a run's folder may have; one that we wrote has ten.
const MAX_NAMES: usize = 1000;

/// The folders of stored states and contents.
const STORED: [&str; 2] = ["states", "objects"];

/// A file cannot be read, or something in it is wrong.
pub(super) enum Stop {
    Failure(Failure),
    Finding(Finding),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

macro_rules! stops {
    ($($failure:ty),+) => {
        $(impl From<$failure> for Stop {
            fn from(failure: $failure) -> Self {
                Stop::Failure(failure.into())
            }
        })+
    };
}

stops!(ArgumentFailure, InputFailure, LedgerFailure, WorkFailure);

impl From<Finding> for Stop {
    fn from(finding: Finding) -> Self {
        Stop::Finding(finding)
    }
}

impl Stop {
    fn into_message(self) -> String {
        match self {
            Stop::Failure(failure) => failure.message(),
            Stop::Finding(finding) => finding.what,
        }
    }
}

/// A receipt and the statement next to it, as they are there.
pub(super) struct ReceiptBytes {
    pub(super) receipt: Vec<u8>,
    pub(super) envelope: Vec<u8>,
}

pub(super) fn read_receipt_bytes(file: &Path) -> Result<ReceiptBytes, Failure> {
    let receipt = read(file, MAX_RECEIPT_BYTES)?;
    let envelope = match read(&file.with_file_name(ENVELOPE_FILE), MAX_ENVELOPE_BYTES) {
        Err(InputFailure::NotFound(path)) => return Err(WorkFailure::NoStatement(path).into()),
        read => read?,
    };
    Ok(ReceiptBytes { receipt, envelope })
}

/// Checks everything in a run's folder.
pub(super) fn check_folder(
    folder: &Path,
    verified: &VerifiedReceipt,
    keys: Option<&[VerifierKey]>,
    is_alone: bool,
) -> Result<RunFiles, Stop> {
    if let Some(name) = folder.file_name().and_then(|name| name.to_str()) {
        check_folder_name(verified, name)?;
    }
    let names = names_in(folder)?;
    let content = |name: &str| read(&folder.join(name), MAX_FILE_BYTES).ok();
    let cleaned = || match read(&folder.join(CLEANED_NAME), MAX_ENVELOPE_BYTES) {
        Err(InputFailure::NotFound(_)) => Ok(None),
        read => Ok(Some(read?)),
    };
    check_run_folder(verified, RunFolder { names: &names, is_alone }, keys, content, cleaned)
}

fn names_in(folder: &Path) -> Result<Vec<String>, InputFailure> {
    let unreadable = |source| InputFailure::Unreadable { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // The stored states may be with a run that was sent alone; they are checked against the receipt.
        if !(STORED.contains(&name.as_str()) && entry.file_type().map_err(unreadable)?.is_dir()) {
            names.push(name);
        }
        if names.len() > MAX_NAMES {
            let name = folder.display().to_string();
            return Err(InputFailure::TooMany { name, limit: MAX_NAMES, what: "files" });
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a file that is one: not a link, a pipe or a device.
pub(super) fn read(path: &Path, max_bytes: usize) -> Result<Vec<u8>, InputFailure> {
    let unreadable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => InputFailure::NotFound(path.to_owned()),
        _ => InputFailure::Unreadable { path: path.to_owned(), source },
    };
    let metadata = fs::symlink_metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(InputFailure::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() <= max_bytes {
        true => Ok(bytes),
        false => Err(InputFailure::TooLarge { what: path.display().to_string(), limit: max_bytes }),
    }
}

/// What of a run in this workspace is not what its receipt, or the statement of the held change, says; nothing if
/// everything is, or if there is nothing yet to compare with.
pub(super) fn mismatch(
    workspace: &WorkspaceArgs,
    reader: &RunReader,
    summary: &RunSummary,
) -> Result<Option<String>, Failure> {
    let signer = own_signer(workspace)?;
    match summary.state {
        RunState::Running | RunState::Unsettled => Ok(None),
        RunState::Held => match signer {
            Some(signer) => {
                let fault = reader.held_fault(&summary.run, &signer).map_err(WorkError::from)?;
                Ok(fault.map(|what| format!("{what} was altered since the change was held")))
            }
            None => Ok(None),
        },
        RunState::Ended(_) | RunState::Interrupted => {
            let receipt_hash = summary.receipt_hash.map(|hash| hash.to_string());
            let journal = JournalRecord {
                receipt_hash: receipt_hash.as_deref(),
                outcome: summary.state.as_str(),
                is_success: summary.state == RunState::Ended(RunStatus::Success),
            };
            let checked = check_run(&reader.folder(&summary.run), signer.as_ref())
                .and_then(|verified| Ok(check_journal(&verified, &journal)?));
            Ok(checked.err().map(Stop::into_message))
        }
    }
}

/// The same of the run in a folder, in a workspace or exported.
pub(super) fn mismatch_in(workspace: &WorkspaceArgs, folder: &Path) -> Result<Option<String>, Failure> {
    // The keys of this workspace are for its own runs alone.
    let is_own = fs::canonicalize(folder)
        .is_ok_and(|folder| workspace.folder().is_ok_and(|own| folder.starts_with(control(&own))));
    let signer = if is_own { own_signer(workspace)? } else { None };
    Ok(check_run(folder, signer.as_ref()).err().map(Stop::into_message))
}

fn check_run(folder: &Path, signer: Option<&Signer>) -> Result<VerifiedReceipt, Stop> {
    let keys = signer.map(verifier_keys).transpose()?;
    let ReceiptBytes { receipt, envelope } = read_receipt_bytes(&folder.join(RECEIPT_FILE))?;
    let verified = match &keys {
        Some(keys) => verify_receipt(&receipt, &envelope, keys)?,
        // Without a key: only that they belong together.
        None => read_unproven(&receipt, &envelope)?,
    };
    check_folder(folder, &verified, keys.as_deref(), false)?;
    Ok(verified)
}

/// The keys that a signer signs with.
pub(super) fn verifier_keys(signer: &Signer) -> Result<Vec<VerifierKey>, LedgerFailure> {
    signer
        .verifier_keys()
        .iter()
        .map(|key| VerifierKey::parse(key).map_err(LedgerFailure::VerifierKey))
        .collect()
}

/// The signer of this workspace, if its keys are there and ours to read.
fn own_signer(workspace: &WorkspaceArgs) -> Result<Option<Signer>, Failure> {
    Ok(Signer::known(&control(&workspace.folder()?), &workspace.settle()?.keys).ok())
}
