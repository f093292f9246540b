//! The plain copy, for machines and folders without overlayfs. Owns the copying, and a manifest of what was copied, so
//! that the changes read from it are the same as an overlay's: what the user does to the directory meanwhile
//! does not count as a change of the view. Refuses to copy past its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, mknodat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::Hidden;
use super::changes::{
    Access, ChangeList, Difference, ReadError, Reading, ViewChange, ViewChangeKind, ViewEntry, difference,
    entry_of, names_in,
};

const MAX_ENTRIES: usize = 1 << 20;
const MAX_BYTES: u64 = 16 << 30;
const MAX_DEPTH: usize = 512;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    entries: BTreeMap<PathBuf, Copied>,
    bytes: u64,
}

#[derive(Debug)]
struct Copied {
    entry: ViewEntry,
    /// Of the copy: while it is the same, the file has not been touched.
    stamp: (u64, i64, i64),
    /// Of the original: while it is the same, the two can be compared.
    original: (u64, i64, i64),
    original_at: PathBuf,
}

fn stamp(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

/// Copies what a directory shows into `to`, which exists and is empty. Walks by descriptors: anyone who changes the
/// directory meanwhile cannot lead the copying through a link to a file that is not in it.
pub(super) fn copy_directory(
    from: &Path,
    hidden: &Hidden,
    to: &Path,
    ids: Option<(u32, u32)>,
) -> Result<Manifest, ReadError> {
    let mut copying = Copying { from, hidden, to, ids, manifest: Manifest::default() };
    let top = openat(CWD, from, DIRECTORY, Mode::empty()).map_err(io::Error::from)?;
    copying.directory(&top, Path::new(""), 0)?;
    let mut manifest = copying.manifest;
    manifest.restamp(to);
    Ok(manifest)
}

struct Copying<'c> {
    from: &'c Path,
    hidden: &'c Hidden,
    to: &'c Path,
    ids: Option<(u32, u32)>,
    manifest: Manifest,
}

impl Copying<'_> {
    fn directory(&mut self, from: &OwnedFd, relative: &Path, depth: usize) -> Result<(), ReadError> {
        if depth > MAX_DEPTH {
            return Err(ReadError::Bound(format!(
                "directories more than {MAX_DEPTH} deep; they cannot be copied"
            )));
        }
        for name in names(from)? {
            let path = relative.join(&name);
            if self.hidden.covers(&path) {
                continue;
            }
            let stat = match statat(from, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat.map_err(io::Error::from)?,
            };
            self.count(&stat)?;
            let at = self.to.join(&path);
            // Gone or replaced: then it was changed while it was copied, and is left out.
            let Some(entry) = self.copy(from, &name, &stat, &at)? else { continue };
            if let ViewEntry::Directory { .. } = entry {
                match openat(from, &name, DIRECTORY, Mode::empty()) {
                    Ok(inner) => self.directory(&inner, &path, depth.saturating_add(1))?,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(e) => return Err(io::Error::from(e).into()),
                }
            }
            if let ViewEntry::File { mode, .. } | ViewEntry::Directory { mode } = entry {
                std::fs::set_permissions(&at, Permissions::from_mode(mode))?;
            }
            let original = (stat.st_ino, stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
            let original_at = self.from.join(&path);
            self.manifest.entries.insert(path, Copied { entry, stamp: (0, 0, 0), original, original_at });
        }
        Ok(())
    }

    fn count(&mut self, stat: &Stat) -> Result<(), ReadError> {
        if self.manifest.entries.len() >= MAX_ENTRIES {
            return Err(ReadError::Bound(format!(
                "more than {MAX_ENTRIES} entries to copy; use a file system with overlayfs"
            )));
        }
        self.manifest.bytes = self.manifest.bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
        if self.manifest.bytes > MAX_BYTES {
            return Err(ReadError::Bound(format!(
                "more than {MAX_BYTES} bytes to copy; use a file system with overlayfs"
            )));
        }
        Ok(())
    }

    /// Copies one entry, a directory without its entries.
    fn copy(&self, from: &OwnedFd, name: &OsStr, stat: &Stat, to: &Path) -> io::Result<Option<ViewEntry>> {
        let mode = stat.st_mode & 0o7777;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let entry = match kind {
            FileType::Directory => {
                std::fs::create_dir(to)?;
                ViewEntry::Directory { mode }
            }
            FileType::Symlink => {
                let target = match readlinkat(from, name, Vec::new()) {
                    Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                    target => PathBuf::from(OsString::from_vec(target?.into_bytes())),
                };
                symlink(&target, to)?;
                ViewEntry::Symlink { target }
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let mut source = match openat(from, name, flags, Mode::empty()) {
                    Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
                    source => File::from(source?),
                };
                let metadata = source.metadata()?;
                if !metadata.is_file() || (metadata.dev(), metadata.ino()) != (stat.st_dev, stat.st_ino) {
                    return Ok(None);
                }
                let mut target = File::options().write(true).create_new(true).open(to)?;
                if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
                    // One that grows meanwhile was counted with its earlier size.
                    io::copy(&mut (&mut source).take(metadata.len()), &mut target)?;
                }
                ViewEntry::File { mode, size_bytes: metadata.len() }
            }
            // A pipe or socket is only a name.
            FileType::Fifo | FileType::Socket => {
                mknodat(CWD, to, kind, Mode::from_raw_mode(mode), 0)?;
                std::fs::set_permissions(to, Permissions::from_mode(mode))?;
                ViewEntry::Special { mode }
            }
            // A device of the original means nothing in a copy.
            _ => return Ok(Some(ViewEntry::Special { mode })),
        };
        if let Some((uid, gid)) = self.ids {
            lchown(to, Some(uid), Some(gid))?;
        }
        Ok(Some(entry))
    }
}

/// The names in a directory, sorted.
fn names(directory: &OwnedFd) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

impl Manifest {
    /// Records the state of the copies once all of them are made; paths that were not copied are ignored.
    fn restamp(&mut self, root: &Path) {
        self.entries.retain(|path, copied| match std::fs::symlink_metadata(root.join(path)) {
            Ok(metadata) => {
                copied.stamp = stamp(&metadata);
                true
            }
            Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
        });
    }

    /// The paths that differ from their copies' first state.
    pub(super) fn changes(&self, root: &Path, reading: &Reading<'_>) -> Result<Vec<ViewChange>, ReadError> {
        let mut list = ChangeList::new(reading);
        let mut seen = BTreeSet::new();
        self.compare(root, Path::new(""), 0, (&mut seen, &mut list, reading))?;
        for (path, copied) in &self.entries {
            if !seen.contains(path) {
                list.push(path, ViewChangeKind::Deleted, copied.entry.clone())?;
            }
        }
        Ok(list.finish())
    }

    fn compare(
        &self,
        root: &Path,
        relative: &Path,
        depth: usize,
        (seen, list, reading): (&mut BTreeSet<PathBuf>, &mut ChangeList<'_>, &Reading<'_>),
    ) -> Result<(), ReadError> {
        if depth > MAX_DEPTH {
            return Err(ReadError::Bound(format!("directories more than {MAX_DEPTH} deep; remove them")));
        }
        let directory = root.join(relative);
        let mut access = Access::open(&directory)?;
        for name in names_in(&directory)? {
            list.tick()?;
            let path = relative.join(&name);
            let at = root.join(&path);
            let metadata = std::fs::symlink_metadata(&at)?;
            let entry = entry_of(&at, &metadata)?;
            match self.entries.get(&path) {
                None => list.push(&path, ViewChangeKind::Created, entry)?,
                Some(copied) => {
                    seen.insert(path.clone());
                    match copied.difference(&entry, &at, &metadata, reading)? {
                        Difference::None => {}
                        Difference::Mode => list.push(&path, ViewChangeKind::Mode, entry)?,
                        Difference::Content => list.push(&path, ViewChangeKind::Modified, entry)?,
                        Difference::Type => {
                            list.push(&path, ViewChangeKind::Deleted, copied.entry.clone())?;
                            list.push(&path, ViewChangeKind::Created, entry)?;
                        }
                    }
                }
            }
            if metadata.is_dir() {
                self.compare(root, &path, depth.saturating_add(1), (seen, list, reading))?;
            }
        }
        access.close()?;
        Ok(())
    }
}

impl Copied {
    fn difference(
        &self,
        is: &ViewEntry,
        at: &Path,
        metadata: &Metadata,
        reading: &Reading<'_>,
    ) -> Result<Difference, ReadError> {
        if stamp(metadata) == self.stamp {
            return Ok(Difference::None);
        }
        let comparable =
            std::fs::symlink_metadata(&self.original_at).is_ok_and(|m| stamp(&m) == self.original);
        match (&self.entry, is) {
            (ViewEntry::File { .. }, ViewEntry::File { .. }) if !comparable => Ok(Difference::Content),
            (was, is) => difference((was, &self.original_at), (is, at), reading),
        }
    }
}
