//! The plain copy, for where no overlay can be had. Owns the copying, and a manifest of what was copied, so
//! that the changes read off it are the same as an overlay's: what a person does to the directory meanwhile
//! is not taken for a change of the view. Refuses to copy past its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::Hidden;
use super::changes::{
    Access, Change, ChangeKind, ChangeList, Difference, Entry, Found, Merged, ReadError, Reading, difference,
    entry_of, names_in,
};

const MAX_ENTRIES: usize = 1 << 20;
const MAX_BYTES: u64 = 16 << 30;
const MAX_DEPTH: usize = 512;

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    entries: BTreeMap<PathBuf, Copied>,
    bytes: u64,
}

#[derive(Debug)]
struct Copied {
    entry: Entry,
    /// Of the copy: while it is the same, the file has not been touched.
    stamp: (u64, i64, i64),
    /// Of the original: while it is the same, the two can be compared.
    original: (u64, i64, i64),
    original_at: PathBuf,
}

fn stamp(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

/// Copies what a directory shows into `to`, which is there and empty.
pub(super) fn copy_directory(
    from: &Path,
    hidden: &Hidden,
    to: &Path,
    ids: Option<(u32, u32)>,
) -> Result<Manifest, ReadError> {
    let mut copying = Copying { hidden, ids, manifest: Manifest::default() };
    copying.directory(&Merged { layers: vec![from.to_path_buf()] }, to, Path::new(""), 0)?;
    let mut manifest = copying.manifest;
    manifest.restamp(to);
    Ok(manifest)
}

struct Copying<'h> {
    hidden: &'h Hidden,
    ids: Option<(u32, u32)>,
    manifest: Manifest,
}

impl Copying<'_> {
    fn directory(
        &mut self,
        from: &Merged,
        to: &Path,
        relative: &Path,
        depth: usize,
    ) -> Result<(), ReadError> {
        if depth > MAX_DEPTH {
            return Err(ReadError::Bound(format!(
                "directories more than {MAX_DEPTH} deep; they cannot be copied"
            )));
        }
        for name in from.names()? {
            let (path, at) = (relative.join(&name), to.join(&name));
            if self.hidden.covers(&path) {
                continue;
            }
            let Some(found) = from.look_up(&name)? else { continue };
            if self.manifest.entries.len() >= MAX_ENTRIES {
                return Err(ReadError::Bound(format!(
                    "more than {MAX_ENTRIES} entries to copy; use a file system with overlayfs"
                )));
            }
            let (original_at, metadata, inner) = match &found {
                Found::Directory(merged, metadata) => {
                    (merged.layers.first().cloned().unwrap_or_default(), metadata, Some(merged))
                }
                Found::Other(path, metadata) => (path.clone(), metadata, None),
            };
            let entry = entry_of(&original_at, metadata)?;
            self.manifest.bytes = self.manifest.bytes.saturating_add(metadata.len());
            if self.manifest.bytes > MAX_BYTES {
                return Err(ReadError::Bound(format!(
                    "more than {MAX_BYTES} bytes to copy; use a file system with overlayfs"
                )));
            }
            copy_entry(&entry, &original_at, &at, self.ids)?;
            if let Some(inner) = inner {
                self.directory(inner, &at, &path, depth.saturating_add(1))?;
            }
            if let Entry::File { mode, .. } | Entry::Directory { mode } = entry {
                std::fs::set_permissions(&at, Permissions::from_mode(mode))?;
            }
            let copied = Copied { entry, stamp: (0, 0, 0), original: stamp(metadata), original_at };
            self.manifest.entries.insert(path, copied);
        }
        Ok(())
    }
}

fn copy_entry(entry: &Entry, from: &Path, to: &Path, ids: Option<(u32, u32)>) -> io::Result<()> {
    match entry {
        Entry::Directory { .. } => std::fs::create_dir(to)?,
        Entry::Symlink { target } => {
            symlink(target, to)?;
            if let Some((uid, gid)) = ids {
                lchown(to, Some(uid), Some(gid))?;
            }
            return Ok(());
        }
        Entry::File { .. } => {
            let mut source = File::open(from)?;
            let mut target = File::options().write(true).create_new(true).open(to)?;
            if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
                io::copy(&mut source, &mut target)?;
            }
        }
        Entry::Special { mode } => {
            // A pipe or socket is only a name; a device of the original means nothing in a copy.
            let kind = std::fs::symlink_metadata(from)?.file_type();
            let kind = match (kind.is_fifo(), kind.is_socket()) {
                (true, _) => FileType::Fifo,
                (_, true) => FileType::Socket,
                _ => return Ok(()),
            };
            mknodat(CWD, to, kind, Mode::from_raw_mode(*mode), 0)?;
            std::fs::set_permissions(to, Permissions::from_mode(*mode))?;
        }
    }
    match ids {
        Some((uid, gid)) => chown(to, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

impl Manifest {
    /// Notes how the copies stand once all of them are made; what was not copied is none of ours.
    fn restamp(&mut self, root: &Path) {
        self.entries.retain(|path, copied| match std::fs::symlink_metadata(root.join(path)) {
            Ok(metadata) => {
                copied.stamp = stamp(&metadata);
                true
            }
            Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
        });
    }

    /// What is not as it was copied.
    pub(super) fn changes(&self, root: &Path, reading: &Reading<'_>) -> Result<Vec<Change>, ReadError> {
        let mut list = ChangeList::new(reading);
        let mut seen = BTreeSet::new();
        self.compare(root, Path::new(""), 0, (&mut seen, &mut list, reading))?;
        for (path, copied) in &self.entries {
            if !seen.contains(path) {
                list.push(path, ChangeKind::Deleted, copied.entry.clone())?;
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
                None => list.push(&path, ChangeKind::Created, entry)?,
                Some(copied) => {
                    seen.insert(path.clone());
                    match copied.difference(&entry, &at, &metadata, reading)? {
                        Difference::None => {}
                        Difference::Mode => list.push(&path, ChangeKind::Mode, entry)?,
                        Difference::Content => list.push(&path, ChangeKind::Modified, entry)?,
                        Difference::Type => {
                            list.push(&path, ChangeKind::Deleted, copied.entry.clone())?;
                            list.push(&path, ChangeKind::Created, entry)?;
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
        is: &Entry,
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
            (Entry::File { .. }, Entry::File { .. }) if !comparable => Ok(Difference::Content),
            (was, is) => difference((was, &self.original_at), (is, at), reading),
        }
    }
}
