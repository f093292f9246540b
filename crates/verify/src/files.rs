//! The files next to a receipt in its run's folder: work item, replay script, result, diff, outputs. Each must be the one that
//! the signed statement names, and there may be no other. For receipts of older versions, whose statements name no files, the
//! work item and the replay script are checked against the receipt itself.

use std::collections::BTreeSet;

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::{ENVELOPE_NAME, ITEM_NAME, RECEIPT_NAME};
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::receipt::Phase;
use crealeph_contracts::uuid::Uuid;

use crate::artifacts::stated_digests;
use crate::envelope::{open_text, quoted};
use crate::finding::{Finding, FindingKind};
use crate::note::VerifierKey;
use crate::receipt::ReadReceipt;

/// The signed statement that files were removed from a run's folder on purpose.
pub const CLEANED_NAME: &str = "CLEANED.dsse.json";
const CLEANED_TYPE: &str = "application/vnd.crealeph.cleaned-run+json";
/// Files that no statement can name: the receipt, the statement itself, the ledger's copy of both, and later files.
const UNNAMED: [&str; 4] = [RECEIPT_NAME, ENVELOPE_NAME, "entry.json", CLEANED_NAME];

/// The files of a run, by the result for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFiles {
    /// As they were written.
    pub checked: Vec<String>,
    /// Named by the statement, and missing.
    pub absent: Vec<String>,
    /// Not covered by the statement, since it is of an older version.
    pub uncovered: Vec<String>,
}

/// The folder of a run, as it was found.
#[derive(Clone, Copy, Debug)]
pub struct RunFolder<'f> {
    /// The names of everything in it, except stored states and contents.
    pub names: &'f [String],
    /// The receipt was sent without its folder: other files next to it are not the run's, and the run's may be missing.
    pub is_alone: bool,
}

/// Checks everything in a run's folder. A missing file is a finding, unless it was cleaned away or the receipt was
/// sent alone. `read` gives the content of a file, and nothing for a name that is no file; `cleaned` gives [`CLEANED_NAME`], if it
/// is there. Without keys nothing is proved about who removed files, or who made them.
///
/// # Errors
/// The first file that is not the run's own; or why one of them cannot be read.
pub fn check_run_folder<E: From<Finding>>(
    run: &ReadReceipt,
    folder: RunFolder<'_>,
    keys: Option<&[VerifierKey]>,
    mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    cleaned: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
) -> Result<RunFiles, E> {
    if let (true, Some(stated)) = (folder.is_alone, &run.statement.predicate.files) {
        let is_stated = |name: &&String| stated.as_slice().iter().any(|it| it.name.as_str() == name.as_str());
        let own: Vec<String> = folder.names.iter().filter(is_stated).cloned().collect();
        return check_run_files(run, &own, &mut read);
    }
    let files = check_run_files(run, folder.names, &mut read)?;
    let cleaned = match (keys, cleaned()?) {
        (_, None) => Vec::new(),
        (None, Some(_)) => files.absent.clone(),
        (Some(keys), Some(envelope)) => read_cleaned(run, &envelope, keys)?,
    };
    match files.absent.iter().find(|name| !cleaned.contains(name) && !folder.is_alone) {
        None => Ok(files),
        Some(name) => {
            let what = format!("the file `{name}` of the run is missing");
            Err(Finding::new(FindingKind::Missing, what).into())
        }
    }
}

/// Checks the files with these names.
fn check_run_files<E: From<Finding>>(
    run: &ReadReceipt,
    names: &[String],
    read: &mut impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
) -> Result<RunFiles, E> {
    let mut files = RunFiles::default();
    let named: BTreeSet<&str> = match &run.statement.predicate.files {
        Some(stated) => {
            for subject in stated.as_slice() {
                let name = subject.name.as_str();
                if name.contains('/') || matches!(name, "." | "..") {
                    let what = format!("the statement names {}, which is no file of a run", quoted(name));
                    return Err(Finding::changed(what).into());
                }
                if !names.iter().any(|own| own == name) {
                    files.absent.push(name.to_owned());
                    continue;
                }
                let found = read(name)?.map(|bytes| ContentDigests::of(&bytes));
                if found != Some(stated_digests(subject)?) {
                    return Err(not_left(name).into());
                }
                files.checked.push(name.to_owned());
            }
            stated.as_slice().iter().map(|subject| subject.name.as_str()).collect()
        }
        None => check_older(run, names, read, &mut files)?,
    };
    for name in names.iter().filter(|name| !UNNAMED.contains(&name.as_str())) {
        match named.contains(name.as_str()) {
            true => {}
            false if run.statement.predicate.files.is_none() => files.uncovered.push(name.clone()),
            false => {
                let name = quoted(name);
                let what = format!("the file {name} is with the run, and no statement names it");
                return Err(Finding::changed(what).into());
            }
        }
    }
    Ok(files)
}

/// What the receipt itself says about its files, if the statement does not.
fn check_older<'v, E: From<Finding>>(
    run: &'v ReadReceipt,
    names: &[String],
    read: &mut impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    files: &mut RunFiles,
) -> Result<BTreeSet<&'v str>, E> {
    let mut named = BTreeSet::new();
    if let Some(item) = &run.statement.predicate.work_item {
        named.insert(ITEM_NAME);
        if names.iter().any(|name| name == ITEM_NAME) {
            let limits = Limits::own(usize::MAX);
            let found = read(ITEM_NAME)?.and_then(|bytes| Valid::<WorkItem>::parse(&bytes, &limits).ok());
            if found.as_deref() != Some(item) {
                return Err(Finding::changed(format!("`{ITEM_NAME}` is not the item that was run")).into());
            }
            files.checked.push(ITEM_NAME.to_owned());
        }
    }
    let scripts = run.receipt.proof_artifacts.as_slice();
    for script in scripts.iter().filter(|_| run.receipt.phase == Phase::Run) {
        let name = script.path.as_str();
        named.insert(name);
        if names.iter().any(|own| own == name) {
            if read(name)?.map(|bytes| Blake3::of(&bytes)) != Some(script.hash) {
                return Err(not_left(name).into());
            }
            files.checked.push(name.to_owned());
        }
    }
    Ok(named)
}

/// Checks that a folder that is named like a run holds the receipt of that run.
///
/// # Errors
/// If it holds another.
pub fn check_folder_name(run: &ReadReceipt, folder: &str) -> Result<(), Finding> {
    match Uuid::parse(folder) {
        Some(named) if named != run.receipt.id => {
            let id = run.receipt.id;
            let what = format!("the folder is that of run {named}, and holds the receipt of run {id}");
            Err(Finding::changed(what))
        }
        _ => Ok(()),
    }
}

/// The files of a run that were removed on purpose, as a known key has signed it.
fn read_cleaned(run: &ReadReceipt, envelope: &[u8], keys: &[VerifierKey]) -> Result<Vec<String>, Finding> {
    let text = open_text(envelope, CLEANED_TYPE, keys)
        .map_err(|finding| finding.about(&format!("`{CLEANED_NAME}`")))?;
    let (document, _) = parse(text.as_bytes(), &Limits::own(usize::MAX));
    let cleaned = document.and_then(|document| {
        let root = document.root();
        let text = |key: &str| root.member(key)?.string().map(|text| text.into_owned());
        let is_own = text("run")? == run.receipt.id.to_string()
            && text("workspace")? == run.statement.predicate.workspace.as_str();
        let names = root.member("files")?.elements().filter_map(|name| Some(name.string()?.into_owned()));
        is_own.then(|| names.collect::<Vec<_>>())
    });
    cleaned.ok_or_else(|| Finding::changed(format!("`{CLEANED_NAME}` is not of this run")))
}

fn not_left(name: &str) -> Finding {
    Finding::changed(format!("the file {} is not the one that the run left", quoted(name)))
}
