//! A run's change, frozen (R26, R27). Owns the reading of a copy-on-write view's changes into a capsule, and that a
//! path is ignored only if the rules before *and* after the run ignore it; refuses files that no state can hold, and changes that no run may
//! make. Ignored files, and those that git itself writes to `.git`, are discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::change::Change;
use crate::control::ControlError;
use crate::deadline::Deadline;
use crate::denied::{DenialReason, DeniedPath, folder_read_as, is_routine, renamed_git_folders, within};
use crate::listing::{Listing, Touched};
use crate::node::TreeNode;
use crate::path::{CONTROL, GIT, TreePath};
use crate::rooted::Root;
use crate::rules::{IGNORE_FILE, IgnoreFiles, Rules};
use crate::scan::{
    Refusal, RefusalReason, ScanError, Unread, WorkspaceSnapshot, read_ignore_file, unread_at,
};
use crate::staged::Staged;
use crate::state::{FileAndFolder, State, StateHash};
use crate::workspace::Workspace;

/// How many discarded and refused paths are listed.
const MAX_LISTED: usize = 100;

/// The changes that a copy-on-write view of a workspace reports. Folders may be named; only files and links count.
#[derive(Clone, Debug, Default)]
pub struct ViewChanges {
    /// The folder with the contents of existing paths, each at its own path.
    pub folder: PathBuf,
    /// The removed paths, with everything below them. They were removed before `present` came.
    pub gone: Vec<PathBuf>,
    /// The new or changed paths.
    pub present: Vec<PathBuf>,
}

/// Changes that are not part of the capsule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Paths written in `.git` or `.crealeph`, the first hundred.
    pub outside: Vec<String>,
    /// How many ignored files and links were changed.
    pub ignored: u64,
}

/// Why a view's changes cannot be frozen.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The run changed a path that no run may change.
    #[error(transparent)]
    Denied(#[from] DeniedPath),
    /// The view contains files that no state can hold.
    #[error("the run left files that a state cannot contain: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Refusal>),
    /// The caller does not want a change to be kept.
    #[error(transparent)]
    Unwanted(#[from] UnwantedChange),
    /// The view or the workspace cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The caller's deadline passed.
    #[error("the time for reading what the run left is over")]
    Stopped,
    /// With the change the workspace would exceed its limits.
    #[error(
        "with this change the workspace would hold {files} files, and the limit is {limit} (`max_files` of a workspace); leave fewer"
    )]
    TooMany {
        /// How many.
        files: usize,
        /// The limit.
        limit: usize,
    },
    /// `.crealeph` cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The view reports a path as a file and a folder.
    #[error(transparent)]
    Torn(#[from] FileAndFolder),
}

/// Why the caller does not want a change to be kept, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwantedChange {
    /// It touches what was hidden from the run.
    #[error("{0}")]
    Hidden(String),
    /// It holds a secret, or cannot be searched for one.
    #[error("{0}")]
    Secret(String),
}

/// A run's change: the paths, and where their contents are until the store has them.
#[derive(Clone, Debug)]
pub struct Capsule {
    pub(crate) before: StateHash,
    pub(crate) after: State,
    pub(crate) changes: Vec<Change>,
    pub(crate) discarded: Discarded,
    pub(crate) staged: Option<Arc<Staged>>,
}

impl Capsule {
    /// The hash of the state the run started from.
    pub fn before(&self) -> StateHash {
        self.before
    }

    /// The state that the change leads to, as anyone will read it, if no one else changes anything.
    pub fn after(&self) -> &State {
        &self.after
    }

    /// The changes, sorted by path. A file that the run hid by its own ignore rules is here, though not in the state.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(crate) fn staged(&self) -> Option<&Staged> {
        self.staged.as_deref()
    }

    /// Changes that are not part of this.
    pub fn discarded(&self) -> &Discarded {
        &self.discarded
    }

    /// A change of some paths, made outside a view; the contents must be in the store.
    ///
    /// # Errors
    /// If the changes do not fit the state.
    pub fn of_changes(before: &State, changes: Vec<Change>) -> Result<Self, FileAndFolder> {
        let after = before.with(&changes)?;
        Ok(Capsule { before: before.hash(), after, changes, discarded: Discarded::default(), staged: None })
    }
}

impl Workspace {
    /// Freezes what a view of this workspace changed since `before` was read. The contents stay in the view until
    /// [`Workspace::keep_contents`] or [`Workspace::prepare`] puts them into the store.
    ///
    /// # Errors
    /// If the view contains files that no state can hold, or something cannot be read.
    pub fn capture(&self, before: &WorkspaceSnapshot, view: &ViewChanges) -> Result<Capsule, CaptureError> {
        self.list(before, view, Deadline::NEVER)?.freeze()
    }

    /// Freezes a change again, relative to another state; its contents are where they are.
    ///
    /// # Errors
    /// As [`Workspace::capture`].
    pub fn capture_again(
        &self,
        capsule: &Capsule,
        before: &WorkspaceSnapshot,
        view: &ViewChanges,
    ) -> Result<Capsule, CaptureError> {
        let again = self.capture(before, view)?;
        Ok(Capsule { staged: capsule.staged.clone(), ..again })
    }

    /// Lists the changes of a view of this workspace since `before` was read. It reads only the names and what
    /// the system says about them.
    ///
    /// # Errors
    /// If the view contains files that no state can hold, or cannot be read.
    pub fn list<'w>(
        &'w self,
        before: &'w WorkspaceSnapshot,
        view: &ViewChanges,
        deadline: Deadline<'w>,
    ) -> Result<Listing<'w>, CaptureError> {
        let folder =
            Root::open(&view.folder).map_err(|source| ScanError::Io { path: view.folder.clone(), source })?;
        let mut capture = Capture {
            workspace: self,
            before,
            view: folder,
            gone: BTreeSet::new(),
            present: BTreeSet::new(),
            git_folders: renamed_git_folders(&self.root)?,
            new_repositories: BTreeSet::new(),
            discarded: Discarded::default(),
            refusals: Vec::new(),
            deadline,
        };
        let listed = capture.list(view);
        if deadline.is_over() {
            return Err(CaptureError::Stopped);
        }
        let Seen { touched, base, rules } = listed?;
        if !capture.refusals.is_empty() {
            capture.refusals.sort_by(|one, other| one.path.cmp(&other.path));
            return Err(CaptureError::Refused(capture.refusals));
        }
        Ok(Listing {
            workspace: self,
            before,
            view: capture.view,
            base,
            rules,
            touched,
            discarded: capture.discarded,
            deadline,
        })
    }
}

pub(crate) fn ignores(rules: &Rules, path: &str) -> bool {
    rules.ignores(path.as_bytes(), false)
}

struct Capture<'c> {
    workspace: &'c Workspace,
    before: &'c WorkspaceSnapshot,
    view: Root,
    /// Removed paths, with everything below them.
    gone: BTreeSet<String>,
    /// Existing paths.
    present: BTreeSet<String>,
    /// Git folders in the workspace that are not called `.git`.
    git_folders: Vec<String>,
    /// Git folders, or files that point to one, that did not exist before.
    new_repositories: BTreeSet<String>,
    discarded: Discarded,
    refusals: Vec<Refusal>,
    deadline: Deadline<'c>,
}

/// The paths of a view, and the state before and the rules as they apply after the run.
struct Seen {
    touched: Vec<Touched>,
    /// `None` if it is the state before itself.
    base: Option<State>,
    rules: Arc<Rules>,
}

impl Capture<'_> {
    /// The paths that were touched.
    fn list(&mut self, view: &ViewChanges) -> Result<Seen, CaptureError> {
        self.sort_out(view)?;
        let ignore_files = self.ignore_files()?;
        let (base, rules) = self.base(ignore_files.as_ref())?;
        self.check_repositories(&rules)?;
        let touched = self.touched(base.as_ref().unwrap_or(&self.before.state), &rules)?;
        Ok(Seen { touched, base, rules })
    }

    /// Converts the view's paths to text, without those in `.git` and `.crealeph`.
    fn sort_out(&mut self, view: &ViewChanges) -> Result<(), CaptureError> {
        let paths = view.gone.iter().map(|path| (path, false));
        for (path, is_present) in paths.chain(view.present.iter().map(|path| (path, true))) {
            let bytes = path.as_os_str().as_bytes();
            let text = path.to_string_lossy();
            let is_outside = match self.is_outside(&text, is_present) {
                // A folder by itself is not a change.
                Err(_) if is_present && self.is_folder(&text) => true,
                judged => judged?,
            };
            if is_outside {
                if self.discarded.outside.len() < MAX_LISTED {
                    self.discarded.outside.push(path.to_string_lossy().into_owned());
                }
                continue;
            }
            match path.to_str() {
                Some(text) if is_present => drop(self.present.insert(text.to_owned())),
                Some(text) => drop(self.gone.insert(text.to_owned())),
                // Existing names are text, so this path is new. Only rules from before the run may hide it.
                None if self.before.rules.ignores(bytes, false) => self.discarded.ignored += 1,
                None if is_present => self.refuse(&path.to_string_lossy(), RefusalReason::NotUtf8),
                None => {}
            }
        }
        Ok(())
    }

    /// Whether a path is in `.git` or `.crealeph` and the change there is discarded; an error if it is denied.
    fn is_outside(&mut self, path: &str, is_present: bool) -> Result<bool, CaptureError> {
        let deny = |path: &str, reason| Err(DeniedPath { path: path.to_owned(), reason }.into());
        let mut end = 0;
        for name in path.split('/') {
            end += name.len();
            let above = path.get(..end).unwrap_or(path);
            let inner = path.get(end + 1..).unwrap_or_default();
            end += 1;
            match folder_read_as(name) {
                None => {}
                Some(GIT) if name == GIT => {
                    let is_known = self.is_known_git(above, inner, is_present)?;
                    return if is_known { Ok(true) } else { deny(path, DenialReason::GitFolder) };
                }
                Some(CONTROL) if name == CONTROL => return Ok(true),
                // Removing a name that is merely read as `.git` makes nothing worse.
                Some(GIT | CONTROL) if !is_present => {}
                Some(guarded) => return deny(path, DenialReason::ReadAs(guarded)),
            }
        }
        match within(path, &self.git_folders) {
            None => Ok(false),
            Some((_, "")) => Ok(true),
            Some((_, inner)) if !is_present || is_routine(inner) => Ok(true),
            Some(_) => deny(path, DenialReason::GitFolder),
        }
    }

    fn is_folder(&self, path: &str) -> bool {
        let stat = self.view.stat(path).ok().flatten();
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Whether a change at or in a `.git` is one that git makes in ordinary use. Removed files are not lost: the change is discarded.
    fn is_known_git(&mut self, git: &str, inner: &str, is_present: bool) -> Result<bool, CaptureError> {
        if !is_present {
            return Ok(true);
        }
        let kind = |root: &Root| match root.stat(git) {
            Ok(stat) => Ok(stat.map(|stat| FileType::from_raw_mode(stat.st_mode))),
            Err(source) => Err(ScanError::Io { path: root.at(git), source }),
        };
        match (kind(&self.workspace.root)?, kind(&self.view)?) {
            (None, _) => {
                self.new_repositories.insert(git.to_owned());
                Ok(true)
            }
            (Some(FileType::Directory), Some(FileType::Directory)) => {
                Ok(inner.is_empty() || is_routine(inner))
            }
            // A file that points to a git folder, another one in place of a folder, or the reverse.
            _ => Ok(false),
        }
    }

    /// Denies a repository that the run made, unless it is where nothing counts.
    fn check_repositories(&self, rules: &Rules) -> Result<(), DeniedPath> {
        let counts = |git: &&String| {
            let folder = git.rsplit_once('/').map(|(folder, _)| folder);
            folder.is_none_or(|folder| {
                let folder = folder.as_bytes();
                !(self.before.rules.ignores(folder, true) && rules.ignores(folder, true))
            })
        };
        match self.new_repositories.iter().find(counts) {
            Some(git) => Err(DeniedPath { path: git.clone(), reason: DenialReason::NewRepository }),
            None => Ok(()),
        }
    }

    fn refuse(&mut self, path: &str, reason: RefusalReason) {
        if self.refusals.len() < MAX_LISTED {
            self.refusals.push(Refusal { path: path.to_owned(), reason });
        }
    }

    /// The ignore files as they are after the run, if that changes any rule.
    fn ignore_files(&self) -> Result<Option<IgnoreFiles>, ScanError> {
        let rules = &self.before.rules;
        let mut files = IgnoreFiles { texts: BTreeMap::new(), gone: self.gone.clone() };
        for path in &self.gone {
            let own = folder_of_ignore_file(path).into_iter();
            let all = own.chain(rules.texts_under(path));
            files.texts.extend(all.map(|folder| (folder.to_owned(), None)));
        }
        for path in &self.present {
            if let Some(folder) = folder_of_ignore_file(path) {
                let max_bytes = self.workspace.limits.max_ignore_file_bytes;
                files.texts.insert(folder.to_owned(), read_ignore_file(&self.view, path, max_bytes)?);
            }
        }
        let is_other = files.texts.iter().any(|(folder, text)| rules.text(folder) != text.as_deref());
        Ok(is_other.then_some(files))
    }

    /// The state before as the rules after the run see it, if that differs, and those rules.
    fn base(&self, ignore_files: Option<&IgnoreFiles>) -> Result<(Option<State>, Arc<Rules>), CaptureError> {
        let before = &self.before.state;
        let Some(ignore_files) = ignore_files else {
            return Ok((None, Arc::clone(&self.before.rules)));
        };
        let _lock = self.workspace.control.lock_to_read()?;
        let rescan = self.workspace.scan(ignore_files, self.deadline)?;
        let rules = Arc::new(rescan.rules.with_new_files(ignore_files));
        // Paths that were seen before stay as they were seen; only newly visible ones are read now.
        let mut entries = before.entries();
        entries.retain(|path, _| !ignores(&rules, path.as_str()));
        for (path, node) in rescan.state.entries() {
            if before.get(&path).is_none() && ignores(&self.before.rules, path.as_str()) {
                entries.insert(path, node);
            }
        }
        Ok((Some(State::new(entries)?), rules))
    }

    /// The paths that count, each with its entry before and now, which may be the same.
    fn touched(&mut self, base: &State, rules: &Rules) -> Result<Vec<Touched>, CaptureError> {
        let mut after: BTreeMap<TreePath, Option<Unread>> = BTreeMap::new();
        for path in std::mem::take(&mut self.gone) {
            self.remove_under(&path, base, &mut after);
            if let Ok(path) = TreePath::parse(&path) {
                after.insert(path, None);
            }
        }
        for path in std::mem::take(&mut self.present) {
            if self.deadline.is_over() {
                return Err(CaptureError::Stopped);
            }
            let parsed = TreePath::parse(&path);
            match unread_at(&self.view, &path)? {
                Err(_) | Ok(Some(_)) if self.discards(rules, &path) => self.discarded.ignored += 1,
                Err(reason) => self.refuse(&path, reason),
                Ok(Some(found)) => match parsed {
                    Err(fault) => self.refuse(&path, RefusalReason::Path(fault)),
                    Ok(_) if self.is_too_deep(&path) => {
                        self.refuse(&path, RefusalReason::TooDeep(self.workspace.limits.max_depth));
                    }
                    Ok(parsed) => {
                        self.remove_under(&path, base, &mut after);
                        after.insert(parsed, Some(found));
                    }
                },
                // A folder takes the place of a file; or it is gone again.
                Ok(None) => {
                    if let Some(parsed) = parsed.ok().filter(|path| base.get(path).is_some()) {
                        after.entry(parsed).or_insert(None);
                    }
                }
            }
        }
        let mut touched = Vec::new();
        for (path, found) in after {
            if self.discards(rules, path.as_str()) {
                self.discarded.ignored += 1;
                continue;
            }
            let before = match self.before.state.get(&path) {
                Some(node) => Some(node.clone()),
                None if ignores(&self.before.rules, path.as_str()) => self.in_place(&path)?,
                None => None,
            };
            touched.push(Touched { path, before, found, read: None });
        }
        Ok(touched)
    }

    /// Whether the next reading of the workspace would refuse the folder of a path.
    fn is_too_deep(&self, path: &str) -> bool {
        path.bytes().filter(|byte| *byte == b'/').count() > self.workspace.limits.max_depth
    }

    /// Whether a path is ignored for this run: by the rules before and after it. An ignore file whose rules are in force
    /// after the run is part of the change even then: the state after follows its rules.
    fn discards(&self, rules: &Rules, path: &str) -> bool {
        let is_in_force = || folder_of_ignore_file(path).is_some_and(|folder| rules.asks(folder));
        ignores(&self.before.rules, path) && ignores(rules, path) && !is_in_force()
    }

    fn remove_under(&self, folder: &str, base: &State, after: &mut BTreeMap<TreePath, Option<Unread>>) {
        for state in [&self.before.state, base] {
            after.extend(state.under(folder).into_iter().map(|path| (path, None)));
        }
    }

    /// The entry of the workspace at a path that was ignored when its state was read.
    fn in_place(&self, path: &TreePath) -> Result<Option<TreeNode>, CaptureError> {
        let found = unread_at(&self.workspace.root, path.as_str())?;
        Ok(match found {
            Ok(Some(found)) => Some(found.read(&self.workspace.root, path.as_str(), self.deadline)?),
            // An entry that no state can hold cannot be restored; publishing will not touch it.
            Ok(None) | Err(_) => None,
        })
    }
}

/// The folder whose ignore file this path is.
fn folder_of_ignore_file(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((folder, IGNORE_FILE)) => Some(folder),
        None if path == IGNORE_FILE => Some(""),
        _ => None,
    }
}
