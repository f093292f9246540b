//! The ledger's file as a file: created completely or not at all, and recognised while it is in use. If it is replaced or removed
//! under a process, the process's writes are lost with it, so that is detected before they are acknowledged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, RenameFlags, StatxFlags, renameat_with, statx};
use rustix::io::Errno;

use super::failure::LedgerFile;
use crate::error::LedgerError;

/// The identity of a file: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: (u32, u32),
    inode: u64,
}

impl FileIdentity {
    /// Of the file at a path, if there is one. Reads only the inode: a kernel that was asked for a file's times gives the next
    /// write a new time, and the sync after it then has the inode to write too (a quarter more for one append).
    fn of(path: &Path) -> io::Result<Option<FileIdentity>> {
        match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
            Ok(found) => {
                let device = (found.stx_dev_major, found.stx_dev_minor);
                Ok(Some(FileIdentity { device, inode: found.stx_ino }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The files of a ledger that is in use: the database, and its write-ahead log once there is one.
#[derive(Debug)]
pub(super) struct OpenFiles {
    file: PathBuf,
    log: PathBuf,
    opened: Option<FileIdentity>,
    opened_log: Option<FileIdentity>,
}

impl OpenFiles {
    pub(super) fn new(file: &Path, place: &LedgerFile) -> Result<OpenFiles, LedgerError> {
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        let opened = FileIdentity::of(file).map_err(|error| place.io(&error))?;
        Ok(OpenFiles { file: file.to_owned(), log: PathBuf::from(log), opened, opened_log: None })
    }

    /// Whether the paths still lead to the files that were opened. The write-ahead log stays while a connection is open.
    pub(super) fn check(&mut self, place: &LedgerFile) -> Result<(), LedgerError> {
        let find = |path: &Path| FileIdentity::of(path).map_err(|error| place.io(&error));
        let log = find(&self.log)?;
        if find(&self.file)? != self.opened || (self.opened_log.is_some() && log != self.opened_log) {
            return Err(LedgerError::Replaced { place: place.to_string() });
        }
        self.opened_log = log;
        Ok(())
    }
}

/// The folder that a file is in.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a new file under a temporary name next to it, and renames it when it is complete and on disk. An
/// interruption leaves only the temporary name. Nothing is ever replaced except an empty file.
pub(super) fn make_whole(
    to: &Path,
    place: &LedgerFile,
    make: impl FnOnce(&Path) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let is_replaced = match fs::metadata(to) {
        Ok(found) if found.is_file() && found.len() == 0 => true,
        Ok(_) => return Err(LedgerError::Exists { place: place.to_string() }),
        Err(_) => false,
    };
    let mut name = std::ffi::OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(format!(".partial-{}", std::process::id()));
    let partial = to.with_file_name(name);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
    let made = made.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            LedgerError::ReadOnly { place: place.to_string(), reason: "its folder does not exist".to_owned() }
        }
        _ => place.io(&error),
    })?;
    let finished = make(&partial).and_then(|()| {
        made.sync_all().map_err(|error| place.io(&error))?;
        let flags = if is_replaced { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(CWD, &partial, CWD, to, flags).map_err(|error| place.io(&error.into()))?;
        File::open(folder_of(to)).and_then(|folder| folder.sync_all()).map_err(|error| place.io(&error))
    });
    if finished.is_err() {
        // It may have been renamed already, or never created.
        let _ = fs::remove_file(&partial);
    }
    finished
}
