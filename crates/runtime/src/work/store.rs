//! The store of runs, under `.crealeph/runs`: a folder for each, the journal, and which processes are alive. Owns the files and
//! the lock; a file is complete or absent, a link in its place is never followed, and a file over its limit is an error.
//!
//! ```text
//! .crealeph/runs/lock              held while something is settled
//! .crealeph/runs/journal.jsonl     one event a line, appended and synced
//! .crealeph/runs/owners/<id>       locked by the process that runs
//! .crealeph/runs/<run>/            item, receipt, result, diff, outputs
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::short_id::AmbiguousId;
use crealeph_contracts::uuid::Uuid;
use crealeph_workspace::sync_together;
use rustix::fs::OFlags;

use super::error::STATUS;
use super::journal::{Event, Journal, JournalState};
use super::log;
use super::receipt::RunFile;

/// The largest file of a run that is read back.
const MAX_FILE_BYTES: u64 = 256 << 20;
const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";
const OWNERS: &str = "owners";

/// Why runs cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// A file or folder cannot be used.
    #[error("cannot {action} `{}`", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line of the journal is not one.
    #[error("line {line} of `{}` cannot be read", .path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Which line.
        line: usize,
    },
    /// A document that is kept of a run cannot be read back.
    #[error("`{}` cannot be read back", .0.display())]
    Unreadable(PathBuf),
    /// A file is larger than anything that is written there.
    #[error("`{}` holds more than {limit_bytes} bytes, which is the limit", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// There is no such run.
    #[error("there is no run `{0}` in this workspace")]
    Unknown(String),
    /// The start of several runs' ids.
    #[error(transparent)]
    Ambiguous(#[from] AmbiguousId),
    /// There is no run before the newest.
    #[error("there is only one run in this workspace")]
    OnlyOne,
    /// No item was run.
    #[error("there is no run in this workspace yet")]
    NoneYet,
}

impl RunsError {
    /// What to do next.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            RunsError::Io { .. } => "fix its permissions or free space",
            RunsError::Damaged { .. } | RunsError::Unreadable(_) | RunsError::TooLarge { .. } => {
                "restore `.crealeph` from a copy"
            }
            RunsError::Unknown(_) | RunsError::OnlyOne => STATUS,
            RunsError::Ambiguous(_) => "give more of its characters",
            RunsError::NoneYet => "see `crealeph work run --help`",
        })
    }
}

pub(super) fn failed<'p>(action: &'static str, path: &'p Path) -> impl Fn(io::Error) -> RunsError + 'p {
    move |source| RunsError::Io { action, path: path.to_owned(), source }
}

/// How many names a run's folder may have; one that was written here has about ten.
const MAX_NAMES: usize = 1_000;

/// The runs of a workspace.
#[derive(Debug)]
pub(super) struct RunStore {
    folder: PathBuf,
    journal: Journal,
}

/// The same for a process that runs something.
#[derive(Debug)]
pub(super) struct OwnedRunStore {
    store: RunStore,
    owner: Uuid,
    /// Locked as long as this process may run something.
    _alive: File,
}

/// The runs while no one else settles anything.
#[derive(Debug)]
pub(super) struct LockedRuns<'r> {
    store: &'r RunStore,
    _lock: File,
}

impl RunStore {
    /// The runs of a workspace.
    pub(super) fn new(workspace: &Path) -> Self {
        let folder = workspace.join(".crealeph/runs");
        RunStore { journal: Journal::new(folder.join(JOURNAL)), folder }
    }

    /// The folder of a run.
    pub(super) fn folder(&self, run: &Uuid) -> PathBuf {
        self.folder.join(run.to_string())
    }

    /// A file of a run.
    pub(super) fn read(&self, run: &Uuid, name: &str) -> Result<Option<Vec<u8>>, RunsError> {
        let path = self.folder(run).join(name);
        let file = match own_file().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        match bytes.len() as u64 <= MAX_FILE_BYTES {
            true => Ok(Some(bytes)),
            false => Err(RunsError::TooLarge { path, limit_bytes: MAX_FILE_BYTES }),
        }
    }

    /// The names of everything in a run's folder, sorted; none if it has no folder.
    pub(super) fn names(&self, run: &Uuid) -> Result<Vec<String>, RunsError> {
        let folder = self.folder(run);
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed("read", &folder))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("read", &folder))?;
            if names.len() >= MAX_NAMES {
                return Err(RunsError::Unreadable(folder));
            }
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// The files that hold what a run printed.
    pub(super) fn outputs(&self, run: &Uuid) -> Result<Vec<RunFile>, RunsError> {
        let mut files = Vec::new();
        for name in log::names(&self.folder(run))? {
            let bytes = self.read(run, &name)?;
            files.extend(bytes.map(|bytes| RunFile::new(&name, bytes)));
        }
        Ok(files)
    }

    /// A document of a run that has to be there.
    pub(super) fn document<T>(
        &self,
        run: &Uuid,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, RunsError> {
        let document = self.document_if_there(run, name, parse)?;
        document.ok_or_else(|| RunsError::Unreadable(self.folder(run).join(name)))
    }

    /// The same of one that not every run has.
    pub(super) fn document_if_there<T>(
        &self,
        run: &Uuid,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, RunsError> {
        let Some(bytes) = self.read(run, name)? else { return Ok(None) };
        let unreadable = || RunsError::Unreadable(self.folder(run).join(name));
        parse(&bytes).map(Some).ok_or_else(unreadable)
    }

    /// Waits until no one else settles anything, and keeps it so.
    pub(super) fn lock(&self) -> Result<LockedRuns<'_>, RunsError> {
        Ok(LockedRuns { store: self, _lock: lock(&self.folder)? })
    }

    /// What happened so far.
    pub(super) fn state(&self) -> Result<Arc<JournalState>, RunsError> {
        self.journal.state()
    }

    /// The short form of a run's id, for a message; the whole id if the journal cannot be read.
    pub(super) fn short(&self, run: &Uuid) -> String {
        self.state().map_or_else(|_| run.to_string(), |state| state.short(run))
    }

    /// Whether the process that has this name still lives.
    pub(super) fn is_alive(&self, owner: &Uuid) -> bool {
        let path = self.folder.join(OWNERS).join(owner.to_string());
        File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

impl OwnedRunStore {
    /// Opens the runs of a workspace, whose `.crealeph` is there, for this process.
    pub(super) fn open(workspace: &Path, owner: Uuid) -> Result<Self, RunsError> {
        let store = RunStore::new(workspace);
        let owners = store.folder.join(OWNERS);
        for folder in [&store.folder, &owners] {
            make_folder(folder)?;
        }
        // A sweep must not take it between its making and its locking.
        let _lock = lock(&store.folder)?;
        let path = owners.join(owner.to_string());
        let alive = File::create(&path).map_err(failed("make", &path))?;
        alive.lock().map_err(failed("lock", &path))?;
        Ok(OwnedRunStore { store, owner, _alive: alive })
    }

    pub(super) fn owner(&self) -> Uuid {
        self.owner
    }

    /// A folder for what a run needs meanwhile, not yet made.
    pub(super) fn scratch(&self, run: &Uuid) -> PathBuf {
        self.store.folder.join(OWNERS).join(format!("{}.{run}", self.owner))
    }
}

impl Deref for OwnedRunStore {
    type Target = RunStore;

    fn deref(&self) -> &RunStore {
        &self.store
    }
}

impl Drop for OwnedRunStore {
    fn drop(&mut self) {
        // One that stays is removed by the next sweep.
        let _ = fs::remove_file(self.store.folder.join(OWNERS).join(self.owner.to_string()));
    }
}

impl LockedRuns<'_> {
    /// What happened so far; no one else adds to it.
    pub(super) fn state(&self) -> Result<Arc<JournalState>, RunsError> {
        self.store.journal.state()
    }

    /// Adds an event; durable when this returns.
    pub(super) fn add(&self, event: Event) -> Result<(), RunsError> {
        self.store.journal.append(event)?;
        sync(&self.store.folder)
    }

    /// Writes the files of a run in place of whatever its folder holds; durable when this returns. Each file is there
    /// whole, the old one or the new one, at every moment.
    pub(super) fn write(&self, run: &Uuid, files: &[RunFile]) -> Result<(), RunsError> {
        self.put(run, files)?;
        self.retain(run, |name| files.iter().any(|file| file.name == name))
    }

    /// Adds files to those of a run, in place of those with the same names; durable when this returns.
    pub(super) fn put(&self, run: &Uuid, files: &[RunFile]) -> Result<(), RunsError> {
        let folder = self.store.folder(run);
        make_folder(&folder)?;
        let written = files.iter().map(|file| write_new(&folder, file)).collect::<Result<Vec<_>, _>>()?;
        sync_together(&written, |(new, file)| file.sync_all().map_err(failed("write", new)))?;
        for ((new, _), RunFile { name, .. }) in written.iter().zip(files) {
            let path = folder.join(name);
            fs::rename(new, &path).map_err(failed("name", &path))?;
        }
        sync(&folder)?;
        sync(&self.store.folder)
    }

    /// Removes the files of a run that are not wanted; durable when this returns.
    pub(super) fn retain(&self, run: &Uuid, is_wanted: impl Fn(&str) -> bool) -> Result<(), RunsError> {
        let folder = self.store.folder(run);
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let path = entry.map_err(failed("read", &folder))?.path();
            let name = path.file_name().and_then(std::ffi::OsStr::to_str);
            if !name.is_some_and(&is_wanted) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        sync(&folder)
    }

    /// How much some files of a run hold.
    pub(super) fn size(&self, run: &Uuid, names: &[&str]) -> u64 {
        let paths = names.iter().map(|name| self.store.folder(run).join(name));
        paths.filter_map(|path| fs::symlink_metadata(path).ok()).map(|metadata| metadata.len()).sum()
    }

    /// Removes files of a run that are there.
    pub(super) fn remove(&self, run: &Uuid, names: &[&str]) -> Result<(), RunsError> {
        for path in names.iter().map(|name| self.store.folder(run).join(name)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what processes that are gone left.
    pub(super) fn sweep(&self) -> Result<(), RunsError> {
        let owners = self.store.folder.join(OWNERS);
        for entry in fs::read_dir(&owners).map_err(failed("read", &owners))? {
            let entry = entry.map_err(failed("read", &owners))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = Uuid::parse(name.split('.').next().unwrap_or(&name));
            if !owner.is_some_and(|owner| self.store.is_alive(&owner)) {
                let path = entry.path();
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(failed("remove", &path))?;
            }
        }
        // A folder that the journal does not know was on its way when its process ended.
        let state = self.state()?;
        for entry in fs::read_dir(&self.store.folder).map_err(failed("read", &self.store.folder))? {
            let path = entry.map_err(failed("read", &self.store.folder))?.path();
            let run = path.file_name().and_then(|name| Uuid::parse(name.to_str()?));
            if run.is_some_and(|run| !state.knows(&run)) {
                fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// How a file of this module's own is opened: a link in its place is never followed.
pub(super) fn own_file() -> fs::OpenOptions {
    let mut options = File::options();
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Makes a folder for this user alone, unless it is there; a link in its place is refused.
fn make_folder(folder: &Path) -> Result<(), RunsError> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make", folder)(error)),
    }
    match fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
        true => Ok(()),
        false => Err(failed("use as a folder", folder)(io::ErrorKind::NotADirectory.into())),
    }
}

/// Writes a file next to the one that it replaces.
fn write_new(folder: &Path, file: &RunFile) -> Result<(PathBuf, File), RunsError> {
    let RunFile { name, bytes, is_executable } = file;
    let new = folder.join(format!(".{name}.new"));
    let mode = if *is_executable { 0o700 } else { 0o600 };
    let opened = own_file().create(true).truncate(true).write(true).mode(mode).open(&new);
    let mut file = opened.map_err(failed("make", &new))?;
    file.write_all(bytes).map_err(failed("write", &new))?;
    Ok((new, file))
}

fn lock(folder: &Path) -> Result<File, RunsError> {
    let path = folder.join(LOCK);
    let opened = own_file().create(true).write(true).mode(0o600).open(&path);
    let lock = opened.map_err(failed("open", &path))?;
    lock.lock().map_err(failed("lock", &path))?;
    Ok(lock)
}

fn sync(folder: &Path) -> Result<(), RunsError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".crealeph")).unwrap();
        folder
    }

    fn run(number: u8) -> Uuid {
        Uuid::from_bytes([number; 16])
    }

    #[test]
    fn a_link_is_never_followed() {
        let folder = workspace();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, folder.path().join(".crealeph/runs")).unwrap();
        assert!(OwnedRunStore::open(folder.path(), run(1)).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        fs::remove_file(folder.path().join(".crealeph/runs")).unwrap();
        let runs = OwnedRunStore::open(folder.path(), run(1)).unwrap();
        let journal = folder.path().join(".crealeph/runs/journal.jsonl");
        std::os::unix::fs::symlink(outside.join("file"), &journal).unwrap();
        let event = Event::Recorded { run: run(2), entry: "e".to_owned() };
        assert!(runs.lock().unwrap().add(event).is_err());
        assert!(!outside.join("file").exists());
    }

    #[test]
    fn what_a_process_that_is_gone_left_is_swept() {
        let folder = workspace();
        let runs = OwnedRunStore::open(folder.path(), run(1)).unwrap();
        let owners = folder.path().join(".crealeph/runs/owners");
        let own = runs.scratch(&run(2));
        fs::create_dir(owners.join("gone.run")).unwrap();
        fs::create_dir(&own).unwrap();
        assert!(runs.is_alive(&runs.owner()) && !runs.is_alive(&run(3)));
        runs.lock().unwrap().sweep().unwrap();
        assert!(own.exists() && owners.join(runs.owner().to_string()).exists());
        assert!(!owners.join("gone.run").exists());
    }

    #[test]
    fn a_file_past_its_bound_is_an_error_and_not_cut() {
        let folder = workspace();
        let runs = OwnedRunStore::open(folder.path(), run(1)).unwrap();
        runs.lock().unwrap().write(&run(2), &[RunFile::new("change.diff", "x".to_owned())]).unwrap();
        assert_eq!(runs.read(&run(2), "change.diff").unwrap().as_deref(), Some(&b"x"[..]));
        assert_eq!(runs.read(&run(2), "absent").unwrap(), None);
        let file = File::options().write(true).open(runs.folder(&run(2)).join("change.diff")).unwrap();
        file.set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(runs.read(&run(2), "change.diff"), Err(RunsError::TooLarge { .. })));
    }
}
