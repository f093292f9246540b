//! A folder, and everything below it. Owns opening by relative path without ever following a symbolic link, so that
//! nothing a link points to is read or written, even if a folder becomes a link meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::path::join;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    fd: OwnedFd,
}

impl Root {
    /// Opens a folder; links on the way to it are followed, it is the caller's own choice.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let fd =
            rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Root { path, fd })
    }

    /// Its path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an entry below, for messages and for this crate's own files.
    pub(crate) fn at(&self, relative: &str) -> PathBuf {
        if relative.is_empty() { self.path.clone() } else { self.path.join(relative) }
    }

    /// Opens the entry at a path below; any symbolic link on the way or at the end is an error (`ELOOP`).
    pub(crate) fn open_beneath(&self, relative: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let relative = if relative.is_empty() { "." } else { relative };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.fd, relative, flags, mode, how) {
            // Old kernels and some containers do not have the call.
            Err(Errno::NOSYS | Errno::PERM) => self.open_by_steps(relative, flags, mode),
            opened => Ok(opened?),
        }
    }

    fn open_by_steps(&self, relative: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let (folders, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let mut at: Option<OwnedFd> = None;
        let step = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
            let from = at.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            at = Some(rustix::fs::openat(from, folder, step, Mode::empty())?);
        }
        let from = at.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
        Ok(rustix::fs::openat(from, name, flags, mode)?)
    }

    /// Opens a folder below, the root itself for an empty path.
    pub(crate) fn folder(&self, relative: &str) -> io::Result<OwnedFd> {
        self.open_beneath(relative, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
    }

    /// Opens a file for reading; never waits for the other end of a pipe.
    pub(crate) fn file(&self, relative: &str) -> io::Result<File> {
        Ok(File::from(self.open_beneath(relative, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?))
    }

    /// The metadata of a path below, or `None`: also if a folder on the way is gone or not a folder.
    pub(crate) fn stat(&self, relative: &str) -> io::Result<Option<Stat>> {
        let (folder, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        match self.folder(folder) {
            Ok(folder) => stat_in(&folder, name),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The metadata of a name in a folder, or `None`.
pub(crate) fn stat_in(folder: impl AsFd, name: &str) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether an error says that a path does not exist: nothing there, or not a folder on the way.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Whether an error says that something already exists.
pub(crate) fn is_there(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::EXIST)
}

/// Creates the missing folders of a relative path below a root.
pub(crate) fn make_folders(root: &Root, relative: &str) -> io::Result<()> {
    let mut above = String::new();
    for name in relative.split('/').filter(|name| !name.is_empty()) {
        let folder = root.folder(&above)?;
        match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        above = join(&above, name);
    }
    root.folder(relative).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_by_either_way_of_opening() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("real/deep")).unwrap();
        std::fs::write(folder.path().join("real/deep/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("real/deep/alias")).unwrap();
        let root = Root::open(folder.path()).unwrap();
        let ways: [fn(&Root, &str) -> io::Result<OwnedFd>; 2] = [
            |root, path| root.open_beneath(path, OFlags::RDONLY, Mode::empty()),
            |root, path| {
                root.open_by_steps(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            },
        ];
        for open in ways {
            assert!(open(&root, "real/deep/file").is_ok());
            for link in ["link", "link/deep/file", "real/deep/alias"] {
                assert!(open(&root, link).is_err_and(|error| is_gone(&error)), "{link}");
            }
        }
        assert!(root.stat("link/deep/file").unwrap().is_none());
        assert!(root.stat("link").unwrap().is_some());
    }
}
