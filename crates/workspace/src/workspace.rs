//! A workspace on disk. Owns its root and its `.crealeph`; everything else in this crate is reached from here.

use std::path::{Path, PathBuf};

use crate::control::{Control, ControlError};
use crate::rooted::Root;
use crate::rules::IgnoreFiles;
use crate::scan::{self, CacheFiles, Limits, ScanError, Snapshot};

/// A folder whose state is read and changed as a whole.
#[derive(Debug)]
pub struct Workspace {
    pub(crate) root: Root,
    pub(crate) control: Control,
    pub(crate) limits: Limits,
}

/// Why a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be opened.
    #[error("cannot open the workspace `{}`; name a folder that is there", .path.display())]
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
    /// Opens a workspace with the default limits; its `.crealeph` is made if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be opened, or its `.crealeph` not be used.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Workspace::open_with(path, Limits::default())
    }

    /// Opens a workspace with limits of its own.
    ///
    /// # Errors
    /// When the folder cannot be opened, or its `.crealeph` not be used.
    pub fn open_with(path: &Path, limits: Limits) -> Result<Self, OpenError> {
        let root = Root::open(path).map_err(|source| OpenError::Root { path: path.to_owned(), source })?;
        let control = Control::open(root.path())?;
        Ok(Workspace { root, control, limits })
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Reads the state. Nothing is published meanwhile; what people change meanwhile may be in it or not.
    ///
    /// # Errors
    /// When something cannot be read, cannot be part of a state, or goes past a limit.
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        let lock = self.control.lock_to_read()?;
        if let Some(publish) = self.unsettled(&lock)? {
            return Err(SnapshotError::Unsettled(publish));
        }
        Ok(self.scan(&IgnoreFiles::default())?)
    }

    /// Reads the state as it would be with other ignore files.
    pub(crate) fn scan(&self, ignore_files: &IgnoreFiles) -> Result<Snapshot, ScanError> {
        let cache = CacheFiles { path: self.control.cache(), temporary: self.control.temporary() };
        scan::scan(&self.root, &self.limits, ignore_files, Some(cache))
    }
}
