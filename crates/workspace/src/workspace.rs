//! A workspace on disk. Owns its root and its `.crealeph`; everything else in this crate is reached from here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::{Cache, CacheWriter};
use crate::control::{Control, ControlError};
use crate::deadline::Deadline;
use crate::git::objects::GitObjects;
use crate::rooted::Root;
use crate::rules::IgnoreFiles;
use crate::scan::{self, ScanError, ScanLimits, WorkspaceSnapshot};

/// A folder whose state is read and changed as a whole.
#[derive(Debug)]
pub struct Workspace {
    pub(crate) root: Root,
    pub(crate) control: Control,
    pub(crate) limits: ScanLimits,
    /// The result of this process's last scan.
    last: Mutex<Option<Arc<Cache>>>,
}

/// Why a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be opened.
    #[error("cannot open the workspace `{}`; name a folder that exists", .path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its `.crealeph` cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Why the state of a workspace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The files cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A publish was interrupted, so the files are neither before nor after.
    #[error("publish `{0}` was interrupted; recover the workspace first")]
    Unsettled(String),
    /// `.crealeph` cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl Workspace {
    /// Opens a workspace with the default limits; creates its `.crealeph` if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be opened, or its `.crealeph` cannot be used.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Workspace::open_with(path, ScanLimits::default())
    }

    /// Opens a workspace with other limits.
    ///
    /// # Errors
    /// If the folder cannot be opened, or its `.crealeph` cannot be used.
    pub fn open_with(path: &Path, limits: ScanLimits) -> Result<Self, OpenError> {
        let root = Root::open(path).map_err(|source| OpenError::Root { path: path.to_owned(), source })?;
        let control = Control::open(root.path())?;
        Ok(Workspace { root, control, limits, last: Mutex::default() })
    }

    /// The same workspace, whose store refers to git's objects for contents that git already has.
    #[must_use]
    pub fn with_git(mut self, git: GitObjects) -> Self {
        self.control.git = Some(git);
        self
    }

    /// Its path, without links.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Reads the state. Nothing is published meanwhile; concurrent edits by others may be in it or not.
    ///
    /// # Errors
    /// If something cannot be read, cannot be part of a state, or exceeds a limit.
    pub fn snapshot(&self) -> Result<WorkspaceSnapshot, SnapshotError> {
        let lock = self.control.lock_to_read()?;
        if let Some(publish) = self.unsettled(&lock)? {
            return Err(SnapshotError::Unsettled(publish));
        }
        Ok(self.scan(&IgnoreFiles::default(), Deadline::NEVER)?)
    }

    /// Reads the state as it would be with other ignore files.
    pub(crate) fn scan(
        &self,
        ignore_files: &IgnoreFiles,
        deadline: Deadline<'_>,
    ) -> Result<WorkspaceSnapshot, ScanError> {
        // Started before anything is read. A cache that cannot be written is no reason not to read.
        let writer = CacheWriter::start(self.control.cache(), self.control.temporary()).ok();
        let device = scan::device(&self.root)?;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last = last.or_else(|| Cache::read(&self.control.cache(), device).map(Arc::new));
        let snapshot = scan::scan(&self.root, &self.limits, ignore_files, last.as_deref(), deadline)?;
        let root = snapshot.state.root();
        let is_new = last.as_ref().is_none_or(|last| !Arc::ptr_eq(last.root(), root));
        let seen = match writer.filter(|_| is_new && ignore_files.is_empty()) {
            None => last,
            Some(writer) => {
                let cache = Cache::new(writer.started(), device, Arc::clone(root));
                let _ = writer.finish(&cache.text());
                Some(Arc::new(cache))
            }
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(snapshot)
    }
}
