//! Reading an overlay's upper layer as a list of changes. Owns the meaning of whiteouts and opaque
//! directories and the comparison with the lower layers; refuses to follow a symbolic link, to touch what is
//! below, or to open anything but a regular file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::SandboxError;

/// The most changes that a view may have.
const MAX_CHANGES: usize = 1 << 20;
const MAX_DEPTH: usize = 512;
/// How many entries are read between two checks whether to stop.
const ENTRIES_PER_QUESTION: usize = 64;
const OPAQUE: &str = "user.overlay.opaque";

/// One path that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViewChange {
    /// Relative to the view.
    pub path: PathBuf,
    /// What happened to it.
    pub kind: ViewChangeKind,
    /// Its state now, or before if it was deleted.
    pub entry: ViewEntry,
}

/// The kind of change of a path. A path whose type changed is deleted and then created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewChangeKind {
    /// It was deleted.
    Deleted,
    /// It is new.
    Created,
    /// Its content or target is new; its mode may be, too.
    Modified,
    /// Only its mode is new.
    Mode,
}

/// The file, link or directory at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ViewEntry {
    /// A regular file.
    File {
        /// Its permission bits.
        mode: u32,
        /// Its length.
        size_bytes: u64,
    },
    /// A directory.
    Directory {
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Its target.
        target: PathBuf,
    },
    /// A pipe, socket or device.
    Special {
        /// Its permission bits.
        mode: u32,
    },
}

/// Why a view could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    Io(io::Error),
    Bound(String),
    Stopped,
}

/// How a view is read.
pub(super) struct Reading<'r> {
    /// Whether a file of the same size and mode is compared with the lower layer, or listed without being read.
    pub(super) compares: bool,
    /// Whether to stop; called every few entries.
    pub(super) is_over: &'r (dyn Fn() -> bool + Sync),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        if error.raw_os_error() == Some(libc::ENAMETOOLONG) {
            Self::Bound("a path is too long to name; remove the deep directories".to_owned())
        } else {
            Self::Io(error)
        }
    }
}

impl ReadError {
    pub(super) fn into_error(self, lower: &Path) -> SandboxError {
        match self {
            Self::Io(source) => SandboxError::Path { action: "read the view of", path: lower.into(), source },
            Self::Bound(what) => SandboxError::ViewBound { path: lower.into(), what },
            Self::Stopped => {
                let what = "the time limit for reading it was reached; leave less, or raise the run's time"
                    .to_owned();
                SandboxError::ViewBound { path: lower.into(), what }
            }
        }
    }
}

/// The changes an upper layer makes to the layers below, nearest first.
pub(super) fn of_overlay(
    lowers: &[PathBuf],
    upper: &Path,
    reading: &Reading<'_>,
) -> Result<Vec<ViewChange>, ReadError> {
    let mut list = ChangeList::new(reading);
    let below = Merged { layers: lowers.to_vec() };
    compare_directory(Some(&below), upper, Path::new(""), false, 0, &mut list)?;
    Ok(list.finish())
}

/// Changes as they are found, bounded.
pub(super) struct ChangeList<'r> {
    changes: Vec<ViewChange>,
    reading: &'r Reading<'r>,
    entries: usize,
}

impl<'r> ChangeList<'r> {
    pub(super) fn new(reading: &'r Reading<'r>) -> Self {
        Self { changes: Vec::new(), reading, entries: 0 }
    }

    /// Counts an entry that was read, changed or not.
    pub(super) fn tick(&mut self) -> Result<(), ReadError> {
        self.entries = self.entries.saturating_add(1);
        match self.entries.is_multiple_of(ENTRIES_PER_QUESTION) && (self.reading.is_over)() {
            true => Err(ReadError::Stopped),
            false => Ok(()),
        }
    }

    pub(super) fn push(
        &mut self,
        path: &Path,
        kind: ViewChangeKind,
        entry: ViewEntry,
    ) -> Result<(), ReadError> {
        if self.changes.len() >= MAX_CHANGES {
            return Err(ReadError::Bound(format!("more than {MAX_CHANGES} changes; split the work")));
        }
        self.changes.push(ViewChange { path: path.to_path_buf(), kind, entry });
        Ok(())
    }

    /// Deleted paths first, children before parents; then the rest, parents before children.
    pub(super) fn finish(self) -> Vec<ViewChange> {
        let (mut gone, mut there): (Vec<_>, Vec<_>) =
            self.changes.into_iter().partition(|c| c.kind == ViewChangeKind::Deleted);
        gone.sort_by(|a, b| b.path.cmp(&a.path));
        there.sort_by(|a, b| a.path.cmp(&b.path));
        gone.append(&mut there);
        gone
    }
}

/// A directory merged from the layers, nearest first.
pub(super) struct Merged {
    pub(super) layers: Vec<PathBuf>,
}

/// The entry of a merged directory under a name.
pub(super) enum MergedEntry {
    Directory(Merged, Metadata),
    Other(PathBuf, Metadata),
}

impl Merged {
    /// The entry under `name`, if any.
    pub(super) fn look_up(&self, name: &OsStr) -> io::Result<Option<MergedEntry>> {
        let mut directories = Vec::new();
        let mut top = None;
        for layer in &self.layers {
            let path = layer.join(name);
            let metadata = match std::fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => continue,
                Err(e) => return Err(e),
            };
            if is_whiteout(&metadata) {
                break;
            }
            if !metadata.is_dir() {
                if directories.is_empty() {
                    return Ok(Some(MergedEntry::Other(path, metadata)));
                }
                break;
            }
            directories.push(path);
            top.get_or_insert(metadata);
        }
        Ok(top.map(|metadata| MergedEntry::Directory(Self { layers: directories }, metadata)))
    }

    /// Every name that is shown.
    pub(super) fn names(&self) -> io::Result<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        for layer in &self.layers {
            names.extend(names_in(layer)?);
        }
        let mut shown = BTreeSet::new();
        for name in names {
            if self.look_up(&name)?.is_some() {
                shown.insert(name);
            }
        }
        Ok(shown)
    }
}

pub(super) fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    std::fs::read_dir(directory)?.map(|e| e.map(|e| e.file_name())).collect()
}

fn is_whiteout(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == 0
}

fn is_opaque(directory: &Path) -> io::Result<bool> {
    with_access(directory, || {
        let mut value = [0u8; 4];
        match rustix::fs::lgetxattr(directory, OPAQUE, &mut value) {
            Ok(length) => Ok(value.get(..length) == Some(b"y")),
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP | rustix::io::Errno::RANGE) => {
                Ok(false)
            }
            Err(e) => Err(e.into()),
        }
    })
}

/// Does something that the mode of our own file may forbid; the mode is restored after.
fn with_access<T>(path: &Path, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let before = std::fs::symlink_metadata(path)?;
            if before.is_symlink() {
                return Err(e);
            }
            let mode = before.permissions().mode();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | 0o700)).map_err(|_| e)?;
            let result = act();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
            result
        }
        other => other,
    }
}

pub(super) fn entry_of(path: &Path, metadata: &Metadata) -> io::Result<ViewEntry> {
    let mode = metadata.permissions().mode() & 0o7777;
    let kind = metadata.file_type();
    Ok(if kind.is_file() {
        ViewEntry::File { mode, size_bytes: metadata.len() }
    } else if kind.is_dir() {
        ViewEntry::Directory { mode }
    } else if kind.is_symlink() {
        ViewEntry::Symlink { target: std::fs::read_link(path)? }
    } else {
        ViewEntry::Special { mode }
    })
}

fn compare_directory(
    below: Option<&Merged>,
    upper: &Path,
    relative: &Path,
    opaque: bool,
    depth: usize,
    list_out: &mut ChangeList<'_>,
) -> Result<(), ReadError> {
    if depth > MAX_DEPTH {
        return Err(ReadError::Bound(format!("directories more than {MAX_DEPTH} deep; remove them")));
    }
    let mut access = Access::open(upper)?;
    let names: BTreeSet<OsString> = names_in(upper)?.into_iter().collect();
    for name in &names {
        list_out.tick()?;
        let path = relative.join(name);
        let at = upper.join(name);
        let metadata = std::fs::symlink_metadata(&at)?;
        let found = match below {
            Some(merged) => merged.look_up(name)?,
            None => None,
        };
        if is_whiteout(&metadata) {
            if let Some(found) = found {
                delete(&found, &path, depth, list_out)?;
            }
        } else {
            compare_entry(found, &at, &metadata, &path, opaque, depth, list_out)?;
        }
    }
    if let (true, Some(merged)) = (opaque, below) {
        for name in merged.names()?.difference(&names) {
            if let Some(found) = merged.look_up(name)? {
                delete(&found, &relative.join(name), depth, list_out)?;
            }
        }
    }
    access.close()?;
    Ok(())
}

fn compare_entry(
    found: Option<MergedEntry>,
    at: &Path,
    metadata: &Metadata,
    path: &Path,
    parent_opaque: bool,
    depth: usize,
    list_out: &mut ChangeList<'_>,
) -> Result<(), ReadError> {
    let entry = entry_of(at, metadata)?;
    let next = depth.saturating_add(1);
    if let ViewEntry::Directory { mode } = entry {
        // Nothing of the lower layers shows under an opaque directory, whatever the marks below it say.
        let opaque = parent_opaque || is_opaque(at)?;
        return match found {
            Some(MergedEntry::Directory(merged, before)) => {
                if before.permissions().mode() & 0o7777 != mode {
                    list_out.push(path, ViewChangeKind::Mode, entry)?;
                }
                compare_directory(Some(&merged), at, path, opaque, next, list_out)
            }
            other => {
                if let Some(found) = other {
                    delete(&found, path, depth, list_out)?;
                }
                list_out.push(path, ViewChangeKind::Created, entry)?;
                compare_directory(None, at, path, false, next, list_out)
            }
        };
    }
    match found {
        None => list_out.push(path, ViewChangeKind::Created, entry),
        Some(MergedEntry::Other(before_at, before)) => {
            let was = entry_of(&before_at, &before)?;
            match difference((&was, &before_at), (&entry, at), list_out.reading)? {
                Difference::None => Ok(()),
                Difference::Mode => list_out.push(path, ViewChangeKind::Mode, entry),
                Difference::Content => list_out.push(path, ViewChangeKind::Modified, entry),
                Difference::Type => {
                    list_out.push(path, ViewChangeKind::Deleted, was)?;
                    list_out.push(path, ViewChangeKind::Created, entry)
                }
            }
        }
        Some(found) => {
            delete(&found, path, depth, list_out)?;
            list_out.push(path, ViewChangeKind::Created, entry)
        }
    }
}

/// Notes a path and everything that was below it as deleted.
fn delete(
    found: &MergedEntry,
    path: &Path,
    depth: usize,
    list_out: &mut ChangeList<'_>,
) -> Result<(), ReadError> {
    if depth > MAX_DEPTH {
        return Err(ReadError::Bound(format!("directories more than {MAX_DEPTH} deep; remove them")));
    }
    match found {
        MergedEntry::Other(at, metadata) => {
            list_out.push(path, ViewChangeKind::Deleted, entry_of(at, metadata)?)
        }
        MergedEntry::Directory(merged, metadata) => {
            for name in merged.names()? {
                list_out.tick()?;
                if let Some(inner) = merged.look_up(&name)? {
                    delete(&inner, &path.join(&name), depth.saturating_add(1), list_out)?;
                }
            }
            let mode = metadata.permissions().mode() & 0o7777;
            list_out.push(path, ViewChangeKind::Deleted, ViewEntry::Directory { mode })
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    None,
    Mode,
    Content,
    Type,
}

/// How two entries differ that are not both directories.
pub(super) fn difference(
    (was, was_at): (&ViewEntry, &Path),
    (is, is_at): (&ViewEntry, &Path),
    reading: &Reading<'_>,
) -> Result<Difference, ReadError> {
    let by_mode = |a: u32, b: u32| if a == b { Difference::None } else { Difference::Mode };
    Ok(match (was, is) {
        (ViewEntry::File { mode: a, size_bytes: x }, ViewEntry::File { mode: b, size_bytes: y }) => {
            let is_same = reading.compares && x == y && same_content(was_at, is_at, reading)?;
            if is_same { by_mode(*a, *b) } else { Difference::Content }
        }
        (ViewEntry::Symlink { target: a }, ViewEntry::Symlink { target: b }) => {
            if a == b {
                Difference::None
            } else {
                Difference::Content
            }
        }
        (ViewEntry::Special { mode: a }, ViewEntry::Special { mode: b }) => {
            let kind = |p: &Path| std::fs::symlink_metadata(p).map(|m| (m.mode() & libc::S_IFMT, m.rdev()));
            if kind(was_at)? == kind(is_at)? { by_mode(*a, *b) } else { Difference::Type }
        }
        (ViewEntry::Directory { mode: a }, ViewEntry::Directory { mode: b }) => by_mode(*a, *b),
        _ => Difference::Type,
    })
}

fn same_content(was_at: &Path, is_at: &Path, reading: &Reading<'_>) -> Result<bool, ReadError> {
    // A lower file that cannot be read cannot be known to be the same.
    let Ok(mut was) = open_regular(was_at) else { return Ok(false) };
    let mut is = with_access(is_at, || open_regular(is_at))?;
    let (mut left, mut right) = (vec![0u8; 64 << 10], vec![0u8; 64 << 10]);
    loop {
        let read = read_full(&mut was, &mut left)?;
        if read != read_full(&mut is, &mut right)? || left.get(..read) != right.get(..read) {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
        if (reading.is_over)() {
            return Err(ReadError::Stopped);
        }
    }
}

/// Opens a regular file; follows no link, and waits for no writer of a pipe.
fn open_regular(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::File::options();
    let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn read_full(file: &mut std::fs::File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|r| !r.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled = filled.saturating_add(read),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Our own directory, made searchable while its entries are read.
pub(super) struct Access<'p> {
    path: &'p Path,
    restore: Option<u32>,
}

impl<'p> Access<'p> {
    pub(super) fn open(path: &'p Path) -> io::Result<Self> {
        let mode = std::fs::symlink_metadata(path)?.permissions().mode();
        let searchable =
            rustix::fs::access(path, rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK).is_ok();
        if searchable {
            return Ok(Self { path, restore: None });
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | 0o700))?;
        Ok(Self { path, restore: Some(mode) })
    }

    pub(super) fn close(&mut self) -> io::Result<()> {
        match self.restore.take() {
            Some(mode) => std::fs::set_permissions(self.path, std::fs::Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
