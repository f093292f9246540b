//! Replaying a success (R31): the state before in a scratch folder, the recorded change on it, and the hash of the
//! result. Owns the exported form of a run, a folder laid out like `.crealeph` with what one run needs; never touches a
//! workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::Limits;
use crealeph_contracts::receipt::{Phase, ReceiptStatus};
use crealeph_contracts::{Receipt, WorkItem};
use crealeph_workspace::{
    Archive, KeepError, ScanError, State, StateHash, changes_between, copy_state, state_of_everything,
    state_without_cache,
};

use super::receipt::{ENVELOPE_FILE, ITEM_FILE, RECEIPT_FILE};

/// The largest document of a run that is read.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// How many files that differ are named.
const MAX_NAMED: usize = 20;
const RUNS: &str = "runs";

/// Why a run cannot be replayed or exported.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file of the run.
    #[error("cannot {action} `{}`; name the folder of a run, as `crealeph work status` lists it", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The receipt is not one.
    #[error("`{}` is not a receipt, or was changed; check it with `crealeph work verify`", .0.display())]
    NotAReceipt(PathBuf),
    /// There is nothing to replay.
    #[error("receipt {0} is not of a run that succeeded, so there is nothing to replay")]
    NotASuccess(String),
    /// The states are not with the run.
    #[error("no states are kept next to the run in `{}`; replay it in its workspace, or export it there", .0.display())]
    NoArchive(PathBuf),
    /// A state.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// A folder.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The place to start from is in another state.
    #[error("`{}` is not in the state that the run started from: {}", .folder.display(), named(.paths))]
    OtherStart {
        /// The folder.
        folder: PathBuf,
        /// The files that differ.
        paths: DifferingPaths,
    },
    /// The place of an export holds something.
    #[error("`{}` already exists; name a new folder", .0.display())]
    Exists(PathBuf),
}

fn named(paths: &DifferingPaths) -> String {
    let names = paths.first.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    match (paths.first.len(), paths.left_off) {
        (1, 0) => format!("{names} differs"),
        (_, 0) => format!("{names} differ"),
        (_, more) => format!("{names} and {more} more differ"),
    }
}

/// Files that are not as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DifferingPaths {
    /// The first twenty.
    pub first: Vec<String>,
    /// How many more there are.
    pub left_off: usize,
}

fn failed<'p>(action: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> ReplayError + 'p {
    move |source| ReplayError::Io { action, path: path.to_owned(), source }
}

/// A run that succeeded, with the states it led from and to.
#[derive(Debug)]
pub struct RecordedRun {
    /// Its receipt.
    pub receipt: Valid<Receipt>,
    archive: Archive,
    before: State,
    after: State,
    folder: PathBuf,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// The resulting state.
    pub state: Blake3,
    /// The state that the receipt says.
    pub expected: Blake3,
    /// The files that are not as recorded.
    pub differing: DifferingPaths,
}

impl RecordedRun {
    /// Reads the run in a folder; the states are two folders above it, in its workspace as in an export.
    ///
    /// # Errors
    /// When it is no run that succeeded, or its states are not there.
    pub fn open(folder: &Path) -> Result<Self, ReplayError> {
        let folder = fs::canonicalize(folder).map_err(failed("open", folder))?;
        let path = folder.join(RECEIPT_FILE);
        let not_one = || ReplayError::NotAReceipt(path.clone());
        let limits = Limits::own(usize::try_from(MAX_DOCUMENT_BYTES).unwrap_or(usize::MAX));
        let receipt = Valid::<Receipt>::parse(&read(&path)?, &limits).map_err(|_| not_one())?;
        if receipt.content_hash().ok() != Some(receipt.receipt_hash) {
            return Err(not_one());
        }
        if receipt.status != ReceiptStatus::Succeeded || receipt.phase != Phase::Run {
            return Err(ReplayError::NotASuccess(receipt.id.to_string()));
        }
        let place = folder.parent().and_then(Path::parent);
        let archive = place.and_then(Archive::open).ok_or_else(|| ReplayError::NoArchive(folder.clone()))?;
        // In a workspace, what is git's is read from the repository around it; an export holds everything itself.
        let archive = match place.and_then(Path::parent) {
            Some(workspace) => archive.with_git(super::objects::of(workspace)),
            None => archive,
        };
        let before = archive.kept(StateHash::from_digest(receipt.before_hash))?;
        let after = archive.kept(StateHash::from_digest(receipt.after_hash))?;
        Ok(RecordedRun { receipt, archive, before, after, folder })
    }

    /// The work item that was run.
    ///
    /// # Errors
    /// When it is not with the run.
    pub fn item(&self) -> Result<WorkItem, ReplayError> {
        let path = self.folder.join(ITEM_FILE);
        let item = Valid::<WorkItem>::parse(&read(&path)?, &Limits::default());
        Ok(item.map_err(|_| ReplayError::NotAReceipt(path))?.into_inner())
    }

    /// Puts the state before the run into a folder that is not there yet: the recorded one, or the one of a folder like a
    /// fresh clone, which has to be the same.
    ///
    /// # Errors
    /// When the other folder is in another state, with the files that differ.
    pub fn restore(&self, on: Option<&Path>, into: &Path) -> Result<(), ReplayError> {
        let Some(on) = on else { return Ok(self.archive.restore(&self.before, into)?) };
        let found = state_without_cache(on)?;
        let whole = self.with_withheld(found.state(), &self.before)?;
        if whole.hash() != self.before.hash() {
            let paths = differing(&self.before, &whole);
            return Err(ReplayError::OtherStart { folder: on.to_owned(), paths });
        }
        Ok(copy_state(found.state(), on, into)?)
    }

    /// Replays the recorded change in a folder that holds the state before.
    ///
    /// # Errors
    /// When a recorded content is not there, or the folder cannot be written.
    pub fn replay(&self, folder: &Path) -> Result<ReplayOutcome, ReplayError> {
        self.archive.advance(&self.before, &self.after, folder)?;
        self.compare(folder)
    }

    /// Compares what is in a folder, all of it, with the state after the run.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn compare(&self, folder: &Path) -> Result<ReplayOutcome, ReplayError> {
        let found = state_of_everything(folder)?;
        Ok(self.compare_state(&self.with_withheld(&found, &self.after)?))
    }

    /// The files whose contents were not recorded, since they were hidden from the agent. A replay takes them to be as they were.
    ///
    /// # Errors
    /// When the state after the run cannot be read.
    pub fn withheld(&self) -> Result<Vec<String>, ReplayError> {
        let withheld = self.archive.withheld(self.after.hash())?;
        Ok(withheld.iter().map(ToString::to_string).collect())
    }

    /// A state that was found, with what is withheld of the recorded one if it has nothing there.
    fn with_withheld(&self, found: &State, recorded: &State) -> Result<State, ReplayError> {
        let mut entries = found.entries();
        for path in self.archive.withheld(recorded.hash())? {
            if let (Some(node), false) = (recorded.get(&path), entries.contains_key(&path)) {
                entries.insert(path, node.clone());
            }
        }
        Ok(State::new(entries).map_err(ScanError::from)?)
    }

    fn compare_state(&self, found: &State) -> ReplayOutcome {
        ReplayOutcome {
            state: found.hash().digest(),
            expected: self.receipt.after_hash,
            differing: differing(&self.after, found),
        }
    }

    /// Writes everything that checking and replaying the run needs into a folder that is not there yet: the run, the
    /// receipts of the whole chain, both states and their contents.
    ///
    /// # Errors
    /// When something is missing, or the folder cannot be written. What was written of it is removed then.
    pub fn export(&self, into: &Path) -> Result<(), ReplayError> {
        if into.symlink_metadata().is_ok() {
            return Err(ReplayError::Exists(into.to_owned()));
        }
        let written = self.write_export(into);
        if written.is_err() {
            let _ = fs::remove_dir_all(into);
        }
        written
    }

    fn write_export(&self, into: &Path) -> Result<(), ReplayError> {
        self.archive.export(&[self.before.hash(), self.after.hash()], into)?;
        let runs = self.folder.parent().unwrap_or(&self.folder);
        for entry in fs::read_dir(runs).map_err(failed("read", runs))? {
            let run = entry.map_err(failed("read", runs))?.path();
            if !run.join(RECEIPT_FILE).is_file() {
                continue;
            }
            let target = into.join(RUNS).join(run.file_name().unwrap_or_default());
            fs::create_dir_all(&target).map_err(failed("make", &target))?;
            let names = match run == self.folder {
                true => names_in(&run)?,
                false => vec![RECEIPT_FILE.into(), ENVELOPE_FILE.into()],
            };
            for name in names {
                let (from, to) = (run.join(&name), target.join(&name));
                fs::copy(&from, &to).map_err(failed("copy", &from))?;
            }
        }
        Ok(())
    }
}

fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>, ReplayError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let entry = entry.map_err(failed("read", folder))?;
        if entry.file_type().map_err(failed("read", folder))?.is_file() {
            names.push(entry.file_name());
        }
    }
    Ok(names)
}

fn differing(expected: &State, found: &State) -> DifferingPaths {
    let changes = changes_between(expected, found);
    DifferingPaths {
        first: changes.iter().take(MAX_NAMED).map(|change| change.path.to_string()).collect(),
        left_off: changes.len().saturating_sub(MAX_NAMED),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ReplayError> {
    let size_bytes = fs::metadata(path).map_err(failed("read", path))?.len();
    match size_bytes <= MAX_DOCUMENT_BYTES {
        true => fs::read(path).map_err(failed("read", path)),
        false => Err(ReplayError::NotAReceipt(path.to_owned())),
    }
}
