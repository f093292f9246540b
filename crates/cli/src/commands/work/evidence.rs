//! The files of a run as they lie in its folder: read within bounds, never through a link, and compared with the receipt. All
//! judging is done by `crealeph-verify`.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use crealeph_contracts::receipt::ReceiptStatus;
use crealeph_runtime::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE, Signer};
use crealeph_runtime::work::{Inspect, RunState, Summary, WorkError};
use crealeph_verify::{
    CLEANED_NAME, Finding, Kind, MAX_RECEIPT_BYTES, RunFiles, VerifiedReceipt, VerifierKey,
    check_folder_name, check_run_files, read_cleaned, read_unproven, verify_receipt,
};

use super::key::control;
use super::place::Place;
use crate::failure::Failure;

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

/// Reads a receipt and the statement beside it, and checks them with these keys; without any key only that they belong
/// together.
pub(super) fn read_and_verify(file: &Path, keys: Option<&[VerifierKey]>) -> Result<VerifiedReceipt, Stop> {
    let receipt = read(file, MAX_RECEIPT_BYTES)?;
    let envelope = file.with_file_name(ENVELOPE_FILE);
    let envelope = match read(&envelope, MAX_ENVELOPE_BYTES) {
        Err(Failure::NotFound(path)) => return Err(Failure::NoStatement(path).into()),
        read => read?,
    };
    Ok(match keys {
        Some(keys) => verify_receipt(&receipt, &envelope, keys)?,
        None => read_unproven(&receipt, &envelope)?,
    })
}

/// Checks everything that lies in a run's folder. A file that is missing is a finding, unless it was cleaned away, or the
/// receipt was sent without its folder (`is_alone`).
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
    if is_alone && verified.statement.predicate.files.is_some() {
        // What else lies beside a receipt that was sent alone is none of its business.
        let own = names_stated(verified, &names);
        return Ok(check_run_files(verified, &own, |name| read(&folder.join(name), MAX_FILE_BYTES).ok())?);
    }
    let files = check_run_files(verified, &names, |name| read(&folder.join(name), MAX_FILE_BYTES).ok())?;
    let cleaned = match (keys, read(&folder.join(CLEANED_NAME), MAX_ENVELOPE_BYTES)) {
        (Some(keys), Ok(envelope)) => read_cleaned(verified, &envelope, keys)?,
        // Without a key nothing is proved about what is there, either.
        (None, Ok(_)) => files.absent.clone(),
        (_, Err(Failure::NotFound(_))) => Vec::new(),
        (_, Err(failure)) => return Err(failure.into()),
    };
    match files.absent.iter().find(|name| !cleaned.contains(name) && !is_alone) {
        None => Ok(files),
        Some(name) => {
            let what = format!("the file `{name}` of the run is missing");
            Err(Finding { kind: Kind::Missing, seq: None, what }.into())
        }
    }
}

fn names_stated(verified: &VerifiedReceipt, names: &[String]) -> Vec<String> {
    let stated = verified.statement.predicate.files.as_ref();
    let is_stated = |name: &String| {
        stated.is_some_and(|files| files.as_slice().iter().any(|file| file.name.as_str() == name))
    };
    names.iter().filter(|name| is_stated(name)).cloned().collect()
}

fn names_in(folder: &Path) -> Result<Vec<String>, Failure> {
    let unreadable = |source| Failure::Unreadable { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // The stored states may lie with a run that was sent alone; they are checked against the receipt.
        if !(STORED.contains(&name.as_str()) && entry.file_type().map_err(unreadable)?.is_dir()) {
            names.push(name);
        }
        if names.len() > MAX_NAMES {
            let name = folder.display().to_string();
            return Err(Failure::TooMany { name, limit: MAX_NAMES, what: "files" });
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a file that is one: not a link, a pipe or a device.
fn read(path: &Path, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    let unreadable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => Failure::NotFound(path.to_owned()),
        _ => Failure::Unreadable { path: path.to_owned(), source },
    };
    let metadata = fs::symlink_metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Failure::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() <= max_bytes {
        true => Ok(bytes),
        false => Err(Failure::TooLarge { what: path.display().to_string(), limit: max_bytes }),
    }
}

/// What of a run in this workspace is not what its receipt, or the statement of the held change, says; nothing where
/// everything is, or where there is nothing yet to compare with.
pub(super) fn mismatch(
    place: &Place,
    inspect: &Inspect,
    summary: &Summary,
) -> Result<Option<String>, Failure> {
    let signer = own_signer(place)?;
    match summary.state {
        RunState::Running | RunState::Unsettled => Ok(None),
        RunState::Held => match signer {
            Some(signer) => {
                let fault = inspect.held_fault(&summary.run, &signer).map_err(WorkError::from)?;
                Ok(fault.map(|what| format!("{what} was altered since the change was held")))
            }
            None => Ok(None),
        },
        RunState::Over(_) | RunState::Interrupted => {
            let checked = check_run(&inspect.folder(&summary.run), signer.as_ref());
            Ok(match checked {
                Err(stop) => Some(stop.into_message()),
                Ok(verified) if Some(verified.receipt.receipt_hash.to_string()) != summary.receipt_hash => {
                    Some("its receipt is not the one that the journal names".to_owned())
                }
                Ok(verified) => contradiction(&summary.state, verified.receipt.status),
            })
        }
    }
}

/// What the journal and a receipt say of how a run ended, where that is not the same.
fn contradiction(state: &RunState, status: ReceiptStatus) -> Option<String> {
    let is_success = matches!(state, RunState::Over(word) if word == "success");
    let is_same = is_success == (status == ReceiptStatus::Succeeded);
    (!is_same).then(|| format!("the journal says `{}`, and its receipt `{status}`", state.as_str()))
}

/// The same of the run in a folder, in a workspace or exported.
pub(super) fn mismatch_in(place: &Place, folder: &Path) -> Result<Option<String>, Failure> {
    // The keys of this workspace are for its own runs alone.
    let is_own = fs::canonicalize(folder)
        .is_ok_and(|folder| place.folder().is_ok_and(|own| folder.starts_with(control(&own))));
    let signer = if is_own { own_signer(place)? } else { None };
    Ok(check_run(folder, signer.as_ref()).err().map(Stop::into_message))
}

fn check_run(folder: &Path, signer: Option<&Signer>) -> Result<VerifiedReceipt, Stop> {
    let keys = signer.map(verifier_keys).transpose()?;
    let verified = read_and_verify(&folder.join(RECEIPT_FILE), keys.as_deref())?;
    check_folder(folder, &verified, keys.as_deref(), false)?;
    Ok(verified)
}

/// The keys that a signer signs with.
pub(super) fn verifier_keys(signer: &Signer) -> Result<Vec<VerifierKey>, Failure> {
    signer.verifier_keys().iter().map(|key| VerifierKey::parse(key).map_err(Failure::VerifierKey)).collect()
}

/// The signer of this workspace, where its keys are there and ours to read.
fn own_signer(place: &Place) -> Result<Option<Signer>, Failure> {
    Ok(Signer::known(&control(&place.folder()?), &place.settle()?.keys).ok())
}
