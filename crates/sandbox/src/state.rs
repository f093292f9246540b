//! The folder of views while their owner lives. Owns one locked folder for each [`crate::Sandbox`] and
//! the sweep of those whose owner died; refuses to touch a folder whose lock is held, including by a helper that is
//! still ending a tree, and a directory in which others could create folders.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::cgroup;
use crate::error::SandboxError;
use crate::tree;

const PREFIX: &str = "owner-";
const LOCK: &str = "lock";
const CGROUPS: &str = "cgroups-";
const MAX_OWNERS: u64 = 1 << 20;
const DYING_TRIES: u32 = 400;
const DYING_PAUSE: Duration = Duration::from_millis(5);

/// One owner's folder.
#[derive(Debug)]
pub(crate) struct OwnerFolder {
    folder: PathBuf,
    lock: File,
    next: AtomicU64,
}

impl OwnerFolder {
    /// Sweeps what dead owners left and creates a folder of our own.
    pub(crate) fn open(directory: &Path) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::Path {
            action: "use the sandbox's state directory",
            path: directory.into(),
            source,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let directory = &directory.canonicalize().map_err(failed)?;
        let metadata = std::fs::metadata(directory).map_err(failed)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            let what =
                "it belongs to another user, or others may write to it; use one that only you can write to";
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, what)));
        }
        let guard = guard(directory).map_err(failed)?;
        sweep_locked(directory).map_err(failed)?;
        let made = Self::make(directory).map_err(failed);
        drop(guard);
        made
    }

    /// The same in a directory that other users can walk through.
    pub(crate) fn open_reachable(directory: &Path) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::Path {
            action: "use for sandboxes without mounts",
            path: directory.into(),
            source,
        };
        match DirBuilder::new().mode(0o711).create(directory) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(e)),
            _ => {}
        }
        if !std::fs::symlink_metadata(directory).map_err(failed)?.is_dir() {
            return Err(failed(io::Error::new(
                io::ErrorKind::NotADirectory,
                "it is not a directory; remove it",
            )));
        }
        let state = Self::open(directory)?;
        for path in [directory, state.folder()] {
            std::fs::set_permissions(path, Permissions::from_mode(0o711)).map_err(failed)?;
        }
        Ok(state)
    }

    fn make(directory: &Path) -> io::Result<Self> {
        for attempt in 0..MAX_OWNERS {
            let folder = directory.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            let lock = File::create(folder.join(LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            return Ok(Self { folder, lock, next: AtomicU64::new(0) });
        }
        Err(io::Error::other("too many owners of one process"))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn lock(&self) -> &File {
        &self.lock
    }

    /// A name no other view of this owner has.
    pub(crate) fn new_path(&self) -> PathBuf {
        self.folder.join(format!("view-{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    /// Records cgroups that are about to be created, for the sweep; the note is removed once they are gone.
    pub(crate) fn note_cgroups(&self, directories: &[PathBuf]) -> io::Result<PathBuf> {
        let note = self.folder.join(format!("{CGROUPS}{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let lines: String = directories.iter().filter_map(|d| d.to_str()).map(|d| format!("{d}\n")).collect();
        std::fs::write(&note, lines)?;
        Ok(note)
    }

    /// A name for the next cgroup of this owner; no other owner in this process has it, in any directory.
    pub(crate) fn cgroup_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let owner = self.folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        format!("crealeph-{owner}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for OwnerFolder {
    fn drop(&mut self) {
        // Anything that cannot be removed now is swept at the next start.
        remove_cgroups(&self.folder);
        let _ = tree::remove(&self.folder);
    }
}

/// A folder for the private directories of one run; removed with it.
pub(crate) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Creates one that belongs to `ids`.
    pub(crate) fn make(state: &OwnerFolder, ids: Option<(u32, u32)>) -> Result<Self, SandboxError> {
        let scratch = Self { folder: state.new_path() };
        let failed = |source| SandboxError::Path {
            action: "make the private places in",
            path: scratch.folder.clone(),
            source,
        };
        DirBuilder::new().mode(0o700).create(&scratch.folder).map_err(failed)?;
        if let Some((uid, gid)) = ids {
            chown(&scratch.folder, Some(uid), Some(gid)).map_err(failed)?;
        }
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Anything that cannot be removed now is swept at the next start.
        let _ = tree::remove(&self.folder);
    }
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Folders of owners that had died.
    pub folders: u64,
}

/// Removes what dead owners left under `directory`.
pub(crate) fn sweep(directory: &Path) -> Result<Swept, SandboxError> {
    let failed = |source| SandboxError::Path {
        action: "sweep the sandbox's state directory",
        path: directory.into(),
        source,
    };
    if !directory.exists() {
        return Ok(Swept::default());
    }
    let _guard = guard(directory).map_err(failed)?;
    sweep_locked(directory).map_err(failed)
}

/// Held while folders are created or swept, so that none is removed between its creation and its locking.
fn guard(directory: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(directory.join("sweep.lock"))?;
    flock(file.as_fd(), FlockOperation::LockExclusive)?;
    Ok(file)
}

fn sweep_locked(directory: &Path) -> io::Result<Swept> {
    let mut swept = Swept::default();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let folder = entry.path();
        if !is_free(&folder) {
            continue;
        }
        remove_cgroups(&folder);
        tree::remove(&folder)?;
        swept.folders = swept.folders.saturating_add(1);
    }
    Ok(swept)
}

/// Whether no one holds the folder. The helper of an owner that has just died still does while it ends the
/// tree, so this waits for it for a while.
fn is_free(folder: &Path) -> bool {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return true };
    let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let owner =
        name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse().ok());
    let owner_lives =
        || owner.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    for _ in 0..DYING_TRIES {
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if owner_lives() {
            return false;
        }
        std::thread::sleep(DYING_PAUSE);
    }
    false
}

fn remove_cgroups(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let notes = entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(CGROUPS));
    for list in notes.filter_map(|note| std::fs::read_to_string(note.path()).ok()) {
        for line in list.lines().filter(|l| l.contains("/crealeph-")) {
            cgroup::remove(Path::new(line));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let base = std::env::temp_dir().join(format!("crealeph-shared-state-{}", std::process::id()));
        for (mode, expected) in [(0o700, true), (0o711, true), (0o770, false), (0o1777, false)] {
            std::fs::create_dir(&base).unwrap();
            std::fs::set_permissions(&base, Permissions::from_mode(mode)).unwrap();
            assert_eq!(OwnerFolder::open(&base).is_ok(), expected, "{mode:o}");
            std::fs::remove_dir_all(&base).unwrap();
        }
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir(&base).unwrap();
            chown(&base, Some(65_531), None).unwrap();
            assert!(OwnerFolder::open(&base).is_err());
            std::fs::remove_dir_all(&base).unwrap();
        }
    }

    #[test]
    fn owners_in_different_directories_never_share_a_cgroup() {
        let base = std::env::temp_dir().join(format!("crealeph-state-{}", std::process::id()));
        let one = OwnerFolder::open(&base.join("one")).unwrap();
        let other = OwnerFolder::open(&base.join("other")).unwrap();
        assert_eq!(one.folder().file_name(), other.folder().file_name());
        assert_ne!(one.cgroup_name(), other.cgroup_name());
        drop((one, other));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
