//! A file that a command creates: under a temporary name until it is complete and on disk, and never replacing another.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::failure::OutputFailure;

/// A file that is not whole yet; it is removed if it never becomes whole.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    is_whole: bool,
}

impl NewFile {
    /// Starts a file; refuses a name that is taken.
    pub(crate) fn create(path: &Path) -> Result<Self, OutputFailure> {
        if path.symlink_metadata().is_ok() {
            return Err(OutputFailure::Taken(path.to_owned()));
        }
        let partial = partial_name(path);
        let file = OpenOptions::new().write(true).create_new(true).open(&partial);
        let file = file.map_err(|error| unwritable(path, error))?;
        Ok(NewFile { path: path.to_owned(), partial, file, is_whole: false })
    }

    /// Why it cannot be written.
    pub(crate) fn failure(&self, error: io::Error) -> OutputFailure {
        unwritable(&self.path, error)
    }

    /// Gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), OutputFailure> {
        let name = || {
            self.file.sync_all()?;
            renameat_with(CWD, &self.partial, CWD, &self.path, RenameFlags::NOREPLACE)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        name().map_err(|error| self.failure(error))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn unwritable(path: &Path, source: io::Error) -> OutputFailure {
    match source.kind() {
        io::ErrorKind::AlreadyExists => OutputFailure::Taken(path.to_owned()),
        _ => OutputFailure::Unwritable { path: path.to_owned(), source },
    }
}

/// The name that a file has until it is whole.
fn partial_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".partial-{}", std::process::id()));
    path.with_file_name(name)
}
