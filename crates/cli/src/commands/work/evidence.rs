//! Reads the files of a run's folder, within bounds and never through a link, for `crealeph-verify` to judge.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use crealeph_runtime::report::run_fault;
use crealeph_runtime::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE, Signer};
use crealeph_runtime::work::{RunReader, RunSummary};
use crealeph_verify::{
    CLEANED_NAME, MAX_RECEIPT_BYTES, ReadReceipt, RunFiles, RunFolder, VerifierKey, check_folder_name,
    check_run_folder, read_unproven, verify_receipt,
};

use super::key::control;
use super::workspace_args::WorkspaceArgs;
use crate::commands::stop::Stop;
use crate::failure::{Failure, InputFailure, LedgerFailure, WorkFailure};

/// More than an envelope around the largest receipt.
const MAX_ENVELOPE_BYTES: usize = 4 * MAX_RECEIPT_BYTES;
/// The largest file of a run that is read.
const MAX_FILE_BYTES: usize = 256 << 20;
/// How many names a run's folder may have; one that we wrote has ten.
const MAX_NAMES: usize = 1000;

/// The folders of stored states and contents.
const STORED: [&str; 2] = ["states", "objects"];

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
    run: &ReadReceipt,
    keys: Option<&[VerifierKey]>,
    is_alone: bool,
) -> Result<RunFiles, Stop> {
    if let Some(name) = folder.file_name().and_then(|name| name.to_str()) {
        check_folder_name(run, name)?;
    }
    let names = names_in(folder)?;
    let content = |name: &str| match read(&folder.join(name), MAX_FILE_BYTES) {
        // A link or a folder is not what the run left.
        Err(InputFailure::NotFound(_) | InputFailure::NotAFile(_)) => Ok(None),
        read => Ok(Some(read?)),
    };
    let cleaned = || match read(&folder.join(CLEANED_NAME), MAX_ENVELOPE_BYTES) {
        Err(InputFailure::NotFound(_)) => Ok(None),
        read => Ok(Some(read?)),
    };
    check_run_folder(run, RunFolder { names: &names, is_alone }, keys, content, cleaned)
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
    let keys = signer.as_ref().map(verifier_keys).transpose()?;
    Ok(run_fault(reader, summary, signer.as_ref(), keys.as_deref().unwrap_or(&[]))?)
}

/// The same of the run in a folder, in a workspace or exported.
pub(super) fn mismatch_in(workspace: &WorkspaceArgs, folder: &Path) -> Result<Option<String>, Failure> {
    // The keys of this workspace are for its own runs alone.
    let is_own = fs::canonicalize(folder)
        .is_ok_and(|folder| workspace.folder().is_ok_and(|own| folder.starts_with(control(&own))));
    let signer = if is_own { own_signer(workspace)? } else { None };
    let keys = signer.as_ref().map(verifier_keys).transpose()?;
    let ReceiptBytes { receipt, envelope } = match read_receipt_bytes(&folder.join(RECEIPT_FILE)) {
        Ok(bytes) => bytes,
        Err(failure) => return Ok(Some(failure.message())),
    };
    let read = match &keys {
        Some(keys) => verify_receipt(&receipt, &envelope, keys).map(|verified| verified.read),
        // Without a key: only that they belong together.
        None => read_unproven(&receipt, &envelope),
    };
    let checked =
        read.map_err(Stop::from).and_then(|read| check_folder(folder, &read, keys.as_deref(), false));
    match checked {
        Ok(_) => Ok(None),
        Err(Stop::Finding(finding)) => Ok(Some(finding.what)),
        Err(Stop::Failure(failure)) => Err(failure),
    }
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
