//! The folder `.crealeph`, where this crate keeps its own files. Owns its layout and the lock that keeps a reader of the
//! whole workspace and a publish apart; refuses a `.crealeph` that is a link.
//!
//! ```text
//! .crealeph/.gitignore     so that git does not see the folder
//! .crealeph/lock           held shared while a state is read, exclusively while something is published
//! .crealeph/state-cache    the stat cache
//! .crealeph/names-cache    the results of searches by name
//! .crealeph/objects/       contents by their digest
//! .crealeph/states/        states by their hash
//! .crealeph/references/    which of their contents are git's
//! .crealeph/publish/       one folder for each unfinished publish
//! .crealeph/kept/          contents that someone wrote during a publish
//! .crealeph/temporary/     files that will be moved to one of the others
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::git::objects::{GitObjects, References};
use crate::path::CONTROL;
use crate::staged::Staged;

/// How often and how long to wait for a lock.
const LOCK_TRIES: u32 = 600;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Numbers temporary files of this process.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// Why `.crealeph` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Something in it cannot be read or written.
    #[error("cannot {action} `{}`; fix its permissions or free space", .path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not a folder.
    #[error("`{}` is not a folder; move it away", .0.display())]
    NotAFolder(PathBuf),
    /// Someone else holds the lock for too long.
    #[error("another process is using the workspace `{}`; try again when it is done", .0.display())]
    Busy(PathBuf),
}

/// The folder itself.
#[derive(Debug)]
pub(crate) struct Control {
    folder: PathBuf,
    /// How git's objects are read, if that is used.
    pub(crate) git: Option<GitObjects>,
    pub(crate) references: Mutex<References>,
    /// Contents that are not in the store yet.
    pub(crate) staged: Mutex<Vec<Weak<Staged>>>,
}

impl Control {
    /// Opens `.crealeph` in a workspace, and creates it if it does not exist.
    pub(crate) fn open(workspace: &Path) -> Result<Self, ControlError> {
        let folder = workspace.join(CONTROL);
        make_private(&folder)?;
        let control = Control { folder, git: None, references: Mutex::default(), staged: Mutex::default() };
        for part in
            [control.objects(), control.states(), control.publishes(), control.kept(), control.temporaries()]
        {
            make_private(&part)?;
        }
        let ignore = control.folder.join(".gitignore");
        if fs::symlink_metadata(&ignore).is_err() {
            fs::write(&ignore, "*\n").map_err(failed("write", &ignore))?;
        }
        Ok(control)
    }

    /// A folder with the same layout, anywhere; nothing is created.
    pub(crate) fn at(folder: &Path) -> Self {
        Control {
            folder: folder.to_owned(),
            git: None,
            references: Mutex::default(),
            staged: Mutex::default(),
        }
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.folder.join("states")
    }

    pub(crate) fn references_folder(&self) -> PathBuf {
        self.folder.join("references")
    }

    pub(crate) fn publishes(&self) -> PathBuf {
        self.folder.join("publish")
    }

    pub(crate) fn kept(&self) -> PathBuf {
        self.folder.join("kept")
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.join("state-cache")
    }

    pub(crate) fn names(&self) -> PathBuf {
        self.folder.join("names-cache")
    }

    fn temporaries(&self) -> PathBuf {
        self.folder.join("temporary")
    }

    /// A path for a new file, not used by anyone else.
    pub(crate) fn temporary(&self) -> PathBuf {
        let number = NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed);
        self.temporaries().join(format!("{}-{number}", std::process::id()))
    }

    /// Waits, with a time limit, until nothing is being published, and prevents it while the lock is held.
    pub(crate) fn lock_to_read(&self) -> Result<Lock, ControlError> {
        self.lock(File::try_lock_shared)
    }

    /// Waits, with a time limit, until no one reads or publishes, and prevents it while the lock is held.
    pub(crate) fn lock_to_publish(&self) -> Result<Lock, ControlError> {
        self.lock(File::try_lock)
    }

    fn lock(&self, try_lock: fn(&File) -> Result<(), TryLockError>) -> Result<Lock, ControlError> {
        let path = self.folder.join("lock");
        let file = open_own(&path).map_err(failed("open", &path))?;
        for _ in 0..LOCK_TRIES {
            match try_lock(&file) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
            }
        }
        Err(ControlError::Busy(self.folder.parent().unwrap_or(&self.folder).to_owned()))
    }

    /// Removes temporary files of dead processes. Only while no one else uses the workspace.
    pub(crate) fn sweep(&self, _alone: &Lock) -> Result<(), ControlError> {
        let folder = self.temporaries();
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let path = entry.map_err(failed("read", &folder))?.path();
            let owner =
                path.file_name().and_then(|name| name.to_str()?.split_once('-')?.0.parse::<u32>().ok());
            let is_gone = owner.is_none_or(|id| !Path::new("/proc").join(id.to_string()).exists());
            if is_gone {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// A lock that ends when it is dropped, or when the process does.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Builds an error from an action and a path.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ControlError {
    let path = path.to_owned();
    move |source| ControlError::Io { action, path, source }
}

/// Opens a file of this crate's own for writing, and creates it if it does not exist; a link is never followed.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    File::options().create(true).truncate(false).write(true).mode(0o600).custom_flags(no_follow).open(path)
}

/// Creates a folder for this user alone, unless it exists.
pub(crate) fn make_private(folder: &Path) -> Result<(), ControlError> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
                true => Ok(()),
                false => Err(ControlError::NotAFolder(folder.to_owned())),
            }
        }
        Err(error) => Err(failed("make", folder)(error)),
    }
}

/// Makes changes in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), ControlError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}

/// Makes all changes on the file system of a folder durable.
pub(crate) fn sync_file_system(folder: &Path) -> Result<(), ControlError> {
    let opened = File::open(folder).map_err(failed("open", folder))?;
    rustix::fs::syncfs(&opened).map_err(|errno| failed("sync", folder)(errno.into()))
}
