//! What is kept of runs, under `.crealeph/runs`: a folder for each, and one journal that says what counts. Owns the
//! journal's lines and their order, which is the order of the receipts' chain; a line is there whole or not at all.
//!
//! ```text
//! .crealeph/runs/lock              held while something is settled
//! .crealeph/runs/journal.jsonl     one event a line, appended and synced
//! .crealeph/runs/owners/<id>       locked by the process that runs
//! .crealeph/runs/<run>/            item, receipt, result, diff, outputs
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::uuid::Uuid;
use rustix::fs::OFlags;

/// The most that a journal may hold.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;
/// The largest file of a run that is read back.
const MAX_FILE_BYTES: u64 = 256 << 20;
const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";
const OWNERS: &str = "owners";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// A list of items was begun.
    Began { batch: String, at: String },
    /// All of a list that could be run was run.
    Ended { batch: String, at: String },
    /// A run was started.
    Started { run: String, item: String, batch: String, owner: String, at: String, before: String },
    /// A run's files are written; what is left is this publish.
    Prepared { run: String, publish: String, finished: Box<Finished> },
    /// A run waits for a verdict.
    Held {
        run: String,
        item: String,
        batch: String,
        publish: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<HeldBranch>,
        at: String,
    },
    /// Somebody gave it.
    Judged { run: String, approved: bool, who: String, why: String, at: String },
    /// A run is over.
    Finished(Box<Finished>),
    /// Its receipt is in the ledger.
    Recorded { run: String, entry: String },
}

impl Event {
    /// Whether every name in it that is used as a path or given to git can be what it says: a journal is data, and what is
    /// read from it stays beneath the folder of the runs.
    fn is_sound(&self) -> bool {
        let is_run = |run: &str| Uuid::parse(run).is_some();
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
        let is_branch = |name: &str| !name.is_empty() && !name.starts_with('-') && !name.contains(':');
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_publish = |publish: &str| match publish.strip_prefix("branch:") {
            Some(rest) => {
                rest.rsplit_once(':').is_some_and(|(name, commit)| is_branch(name) && is_hex(commit))
            }
            None => !publish.is_empty() && publish.bytes().all(|digit| digit.is_ascii_digit()),
        };
        match self {
            Event::Began { .. } | Event::Ended { .. } => true,
            Event::Started { run, owner, .. } => is_run(run) && is_name(owner),
            Event::Prepared { run, publish, finished } => {
                is_run(run) && is_run(&finished.run) && is_publish(publish)
            }
            Event::Held { run, publish, branch, .. } => {
                let is_held = |held: &HeldBranch| is_branch(&held.name) && is_hex(&held.tip);
                is_run(run) && is_publish(publish) && branch.as_ref().is_none_or(is_held)
            }
            Event::Judged { run, .. } | Event::Recorded { run, .. } => is_run(run),
            Event::Finished(finished) => is_run(&finished.run),
        }
    }
}

/// The branch that a held change is to go to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct HeldBranch {
    pub(super) name: String,
    /// The commit that it was at when the change was held.
    pub(super) tip: String,
    /// The git folder of its repository; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repository: Option<PathBuf>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Finished {
    pub(super) run: String,
    /// Absent for the merge of a level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<String>,
    pub(super) batch: String,
    pub(super) status: String,
    /// Ended by a person or a crash; it may be run again in the same batch.
    #[serde(default)]
    pub(super) interrupted: bool,
    pub(super) receipt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run_hash: Option<String>,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) at: String,
}

/// A file to be written into a run's folder: name, content, and whether it can be executed.
pub(super) type RunFile = (String, Vec<u8>, bool);

/// Why runs cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// A file or folder cannot be used.
    #[error("cannot {action} `{}`; mend its permissions or free space", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line of the journal is not one.
    #[error("line {line} of `{}` cannot be read; restore `.crealeph` from a copy", .path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Which line.
        line: usize,
    },
    /// There is no such run.
    #[error("there is no run `{0}` in this workspace; see `crealeph work status`")]
    Unknown(String),
    /// No item was run.
    #[error("there is no run in this workspace yet; see `crealeph work run --help`")]
    NoneYet,
}

fn failed<'p>(action: &'static str, path: &'p Path) -> impl Fn(io::Error) -> RunsError + 'p {
    move |source| RunsError::Io { action, path: path.to_owned(), source }
}

/// The runs of a workspace.
#[derive(Debug)]
pub(super) struct Runs {
    folder: PathBuf,
    owner: String,
    /// Locked as long as this process may run something.
    alive: Option<File>,
}

/// The journal while nobody else writes to it.
#[derive(Debug)]
pub(super) struct Locked<'r> {
    runs: &'r Runs,
    _lock: File,
}

impl Runs {
    /// Opens the runs of a workspace, whose `.crealeph` is there.
    pub(super) fn open(workspace: &Path, owner: String) -> Result<Self, RunsError> {
        let folder = workspace.join(".crealeph/runs");
        let owners = folder.join(OWNERS);
        for folder in [&folder, &owners] {
            make_folder(folder)?;
        }
        // A sweep must not take it between its making and its locking.
        let _lock = lock(&folder)?;
        let path = owners.join(&owner);
        let alive = File::create(&path).map_err(failed("make", &path))?;
        alive.lock().map_err(failed("lock", &path))?;
        Ok(Runs { folder, owner, alive: Some(alive) })
    }

    /// The runs of a workspace, to be looked at.
    pub(super) fn reader(workspace: &Path) -> Self {
        Runs { folder: workspace.join(".crealeph/runs"), owner: String::new(), alive: None }
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// The folder of a run.
    pub(super) fn folder(&self, run: &str) -> PathBuf {
        self.folder.join(run)
    }

    /// A folder for what a run needs meanwhile, not yet made.
    pub(super) fn scratch(&self, run: &str) -> PathBuf {
        self.folder.join(OWNERS).join(format!("{}.{run}", self.owner))
    }

    /// A file of a run.
    pub(super) fn read(&self, run: &str, name: &str) -> Result<Option<Vec<u8>>, RunsError> {
        let path = self.folder(run).join(name);
        let file = match own_file().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        Ok(Some(bytes))
    }

    /// Waits until nobody else settles anything, and keeps it so.
    pub(super) fn lock(&self) -> Result<Locked<'_>, RunsError> {
        Ok(Locked { runs: self, _lock: lock(&self.folder)? })
    }

    /// Everything that happened so far. A line that was being written when its process ended does not count.
    pub(super) fn history(&self) -> Result<History, RunsError> {
        let path = self.folder.join(JOURNAL);
        let mut text = String::new();
        match own_file().read(true).open(&path) {
            Ok(file) => {
                file.take(MAX_JOURNAL_BYTES).read_to_string(&mut text).map_err(failed("read", &path))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let mut history = History::default();
        for (number, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n'))
        {
            let event = serde_json::from_str(line).ok().filter(Event::is_sound);
            history.add(event.ok_or_else(|| RunsError::Damaged { path: path.clone(), line: number + 1 })?);
        }
        Ok(history)
    }

    /// Whether the process that has this name still lives.
    pub(super) fn is_alive(&self, owner: &str) -> bool {
        let path = self.folder.join(OWNERS).join(owner);
        File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if self.alive.is_some() {
            let _ = fs::remove_file(self.folder.join(OWNERS).join(&self.owner));
        }
    }
}

impl Locked<'_> {
    /// Adds an event; durable when this returns.
    pub(super) fn add(&self, event: &Event) -> Result<(), RunsError> {
        let path = self.runs.folder.join(JOURNAL);
        let opened = own_file().create(true).read(true).write(true).mode(0o600).open(&path);
        let mut file = opened.map_err(failed("open", &path))?;
        let mut line = serde_json::to_vec(event).map_err(|error| failed("write", &path)(error.into()))?;
        line.push(b'\n');
        let write = |file: &mut File| {
            // A line that a crash left without its end is no event; the next one takes its place.
            let length = file.seek(SeekFrom::End(0))?;
            let mut kept = length;
            let mut last = [0];
            while kept > 0 {
                file.seek(SeekFrom::Start(kept - 1))?;
                file.read_exact(&mut last)?;
                if last == *b"\n" {
                    break;
                }
                kept -= 1;
            }
            if kept < length {
                file.set_len(kept)?;
            }
            file.seek(SeekFrom::Start(kept))?;
            file.write_all(&line)?;
            file.sync_data()
        };
        write(&mut file).map_err(failed("write", &path))?;
        sync(&self.runs.folder)
    }

    /// Writes the files of a run in place of whatever its folder holds; durable when this returns. Each file is there
    /// whole, the old one or the new one, at every moment.
    pub(super) fn write(&self, run: &str, files: &[RunFile]) -> Result<(), RunsError> {
        let folder = self.runs.folder(run);
        make_folder(&folder)?;
        files.iter().try_for_each(|file| write_file(&folder, file))?;
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let path = entry.map_err(failed("read", &folder))?.path();
            let is_one = |(name, ..): &RunFile| path.file_name().is_some_and(|own| own == name.as_str());
            if !files.iter().any(is_one) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        sync(&folder)?;
        sync(&self.runs.folder)
    }

    /// Adds a file to those of a run; durable when this returns.
    pub(super) fn put(&self, run: &str, file: &RunFile) -> Result<(), RunsError> {
        let folder = self.runs.folder(run);
        write_file(&folder, file)?;
        sync(&folder)
    }

    /// Removes files of a run, where they are there, and tells how much they held; with `is_dry` it only tells.
    pub(super) fn remove(&self, run: &str, names: &[&str], is_dry: bool) -> Result<u64, RunsError> {
        let mut bytes = 0;
        for name in names {
            let path = self.runs.folder(run).join(name);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            bytes += metadata.len();
            if !is_dry {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(bytes)
    }

    /// Removes what processes that are gone left.
    pub(super) fn sweep(&self) -> Result<(), RunsError> {
        let owners = self.runs.folder.join(OWNERS);
        for entry in fs::read_dir(&owners).map_err(failed("read", &owners))? {
            let entry = entry.map_err(failed("read", &owners))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.split_once('.').map_or(name.as_str(), |(owner, _)| owner);
            if !self.runs.is_alive(owner) {
                let path = entry.path();
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(failed("remove", &path))?;
            }
        }
        // A folder that the journal does not know was on its way when its process ended.
        let history = self.runs.history()?;
        for entry in fs::read_dir(&self.runs.folder).map_err(failed("read", &self.runs.folder))? {
            let path = entry.map_err(failed("read", &self.runs.folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if Uuid::parse(name).is_some() && !history.knows(name) {
                fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// How a file of this module's own is opened: a link in its place is never followed.
fn own_file() -> fs::OpenOptions {
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

fn write_file(folder: &Path, (name, bytes, is_executable): &RunFile) -> Result<(), RunsError> {
    let (path, new) = (folder.join(name), folder.join(format!(".{name}.new")));
    let mode = if *is_executable { 0o700 } else { 0o600 };
    let opened = own_file().create(true).truncate(true).write(true).mode(mode).open(&new);
    let mut file = opened.map_err(failed("make", &new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed("write", &new))?;
    fs::rename(&new, &path).map_err(failed("name", &path))
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

/// A run that was started, as the journal tells it.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) item: String,
    pub(super) batch: String,
    pub(super) owner: String,
    pub(super) at: String,
    pub(super) before: String,
}

/// A run that waits for a verdict.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) item: String,
    pub(super) batch: String,
    pub(super) publish: String,
    pub(super) branch: Option<HeldBranch>,
    pub(super) at: String,
}

/// What the journal adds up to.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Runs that are over, in the order of their receipts.
    pub(super) finished: Vec<Finished>,
    /// Runs that were started and are neither over nor held.
    pub(super) begun: BTreeMap<String, Begun>,
    /// Runs whose publish was about to happen.
    pub(super) prepared: BTreeMap<String, (String, Finished)>,
    /// Runs that wait.
    pub(super) held: BTreeMap<String, Waiting>,
    /// Verdicts: approved or not, who, why, when.
    pub(super) judged: BTreeMap<String, (bool, String, String, String)>,
    /// Runs whose receipt is in the ledger.
    pub(super) recorded: BTreeMap<String, String>,
    /// Lists that were begun and not ended.
    pub(super) open: BTreeSet<String>,
    runs: BTreeSet<String>,
    by_run_hash: BTreeMap<String, String>,
    succeeded: BTreeSet<String>,
}

impl History {
    fn add(&mut self, event: Event) {
        match event {
            Event::Began { batch, .. } => drop(self.open.insert(batch)),
            Event::Ended { batch, .. } => drop(self.open.remove(&batch)),
            Event::Started { run, item, batch, owner, at, before } => {
                self.runs.insert(run.clone());
                self.begun.insert(run, Begun { item, batch, owner, at, before });
            }
            Event::Prepared { run, publish, finished } => {
                self.prepared.insert(run, (publish, *finished));
            }
            Event::Held { run, item, batch, publish, branch, at } => {
                self.begun.remove(&run);
                self.held.insert(run, Waiting { item, batch, publish, branch, at });
            }
            Event::Judged { run, approved, who, why, at } => {
                self.judged.insert(run, (approved, who, why, at));
            }
            Event::Finished(finished) => {
                self.runs.insert(finished.run.clone());
                self.begun.remove(&finished.run);
                self.prepared.remove(&finished.run);
                self.held.remove(&finished.run);
                if finished.status == "success" {
                    self.succeeded.extend(finished.item.clone());
                    if let Some(hash) = &finished.run_hash {
                        self.by_run_hash.entry(hash.clone()).or_insert_with(|| finished.run.clone());
                    }
                }
                self.finished.push(*finished);
            }
            Event::Recorded { run, entry } => drop(self.recorded.insert(run, entry)),
        }
    }

    /// Whether a run was ever started.
    fn knows(&self, run: &str) -> bool {
        self.runs.contains(run)
    }

    /// The newest receipt's hash.
    pub(super) fn head(&self) -> Option<Blake3> {
        self.finished.last().and_then(|finished| Blake3::parse(&finished.receipt))
    }

    /// The successful run with this run hash (R29).
    pub(super) fn with_run_hash(&self, hash: &Blake3) -> Option<&str> {
        self.by_run_hash.get(&hash.to_string()).map(String::as_str)
    }

    /// Whether an item of this id has succeeded (R30).
    pub(super) fn has_succeeded(&self, item: &str) -> bool {
        self.succeeded.contains(item)
    }

    /// The last run of an item in a list that was not interrupted.
    pub(super) fn last_of(&self, batch: &str, item: &str) -> Option<&Finished> {
        let same = |finished: &&Finished| {
            finished.batch == batch && finished.item.as_deref() == Some(item) && !finished.interrupted
        };
        self.finished.iter().rev().find(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(batch: &str) -> Event {
        Event::Began { batch: batch.to_owned(), at: String::new() }
    }

    #[test]
    fn a_torn_line_is_no_event_and_the_next_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".crealeph")).unwrap();
        let runs = Runs::open(folder.path(), "me".to_owned()).unwrap();
        runs.lock().unwrap().add(&began("one")).unwrap();
        let path = folder.path().join(".crealeph/runs/journal.jsonl");
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":\"began\",\"bat").unwrap();
        assert_eq!(runs.history().unwrap().open, BTreeSet::from(["one".to_owned()]));
        runs.lock().unwrap().add(&began("two")).unwrap();
        assert_eq!(runs.history().unwrap().open, BTreeSet::from(["one".to_owned(), "two".to_owned()]));
    }

    #[test]
    fn a_journal_that_names_other_folders_is_refused() {
        let run = "01a1e1a7-d5ea-7929-8f1d-8ea291f8a8d6";
        let started = |run: &str, owner: &str| {
            let (item, batch, at) = ("i".to_owned(), "b".to_owned(), String::new());
            let (run, owner) = (run.to_owned(), owner.to_owned());
            Event::Started { run, item, batch, owner, at, before: String::new() }
        };
        let held = |publish: &str, name: &str, tip: &str| {
            let (run, item, batch) = (run.to_owned(), "i".to_owned(), "b".to_owned());
            let branch = HeldBranch { name: name.to_owned(), tip: tip.to_owned(), repository: None };
            let branch = Some(branch);
            Event::Held { run, item, batch, publish: publish.to_owned(), branch, at: String::new() }
        };
        for sound in [started(run, "me"), held("12", "agents/x", "0af3"), held("branch:a/b:0af3", "a", "0a")]
        {
            assert!(sound.is_sound(), "{sound:?}");
        }
        let unsound = [
            started("../../outside", "me"),
            started("", "me"),
            started(run, "../x"),
            started(run, ".."),
            held("../1", "a", "0a"),
            held("", "a", "0a"),
            held("branch:--exec=x:0a", "a", "0a"),
            held("branch:a:HEAD", "a", "0a"),
            held("1", "-x", "0a"),
            held("1", "a", "main"),
        ];
        for event in unsound {
            assert!(!event.is_sound(), "{event:?}");
        }
    }

    #[test]
    fn a_link_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir_all(folder.path().join(".crealeph")).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, folder.path().join(".crealeph/runs")).unwrap();
        assert!(Runs::open(folder.path(), "me".to_owned()).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        fs::remove_file(folder.path().join(".crealeph/runs")).unwrap();
        let runs = Runs::open(folder.path(), "me".to_owned()).unwrap();
        let journal = folder.path().join(".crealeph/runs/journal.jsonl");
        std::os::unix::fs::symlink(outside.join("file"), &journal).unwrap();
        assert!(runs.lock().unwrap().add(&began("one")).is_err());
        assert!(!outside.join("file").exists());
    }

    #[test]
    fn what_a_process_that_is_gone_left_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".crealeph")).unwrap();
        let runs = Runs::open(folder.path(), "me".to_owned()).unwrap();
        let owners = folder.path().join(".crealeph/runs/owners");
        fs::create_dir(owners.join("gone.run")).unwrap();
        fs::create_dir(owners.join("me.run")).unwrap();
        assert!(runs.is_alive("me") && !runs.is_alive("gone"));
        runs.lock().unwrap().sweep().unwrap();
        assert!(
            owners.join("me.run").exists() && owners.join("me").exists() && !owners.join("gone.run").exists()
        );
    }
}
