//! The content-addressed store: contents by their BLAKE3, each once. Owns that a content is durable before it has its
//! name, and that what is read back is what was put; refuses to hand out anything else.
//!
//! A content may share its blocks with the file it came from where the file system can, but never the file itself, so
//! nobody who writes to a workspace writes to its store. Git's own objects are not referred to: git may prune them, and
//! filters make them differ from the files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::{Blake3, ContentDigests, ContentHasher};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::content;
use crate::control::{Control, ControlError, failed, make_private, sync_file_system, sync_folder};
use crate::rooted::Root;

/// From this many contents on, the file system is synced once instead of each file.
const SYNC_ALL_FROM: usize = 64;

/// Why the store cannot take or give a content.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's files cannot be read or written.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The content is not there.
    #[error("the store does not hold `{0}`; it was never put there, or was removed")]
    Missing(Blake3),
    /// The content is not what its name says.
    #[error("the stored content `{0}` is damaged; restore `.crealeph` from a copy")]
    Damaged(Blake3),
    /// The content is larger than the caller takes.
    #[error("the stored content `{digest}` is larger than {max_bytes} bytes")]
    TooLarge {
        /// Which.
        digest: Blake3,
        /// The bound.
        max_bytes: u64,
    },
    /// A file to be kept cannot be read.
    #[error("cannot read `{}` to keep it; mend its permissions", .path.display())]
    Source {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file to be kept is no longer what it was.
    #[error("`{0}` changed before it could be kept; read the state again")]
    Changed(String),
}

/// The store of one workspace.
#[derive(Clone, Copy, Debug)]
pub struct Store<'w> {
    control: &'w Control,
}

/// A content that is written, but has no name yet.
struct Written {
    temporary: PathBuf,
    digest: Blake3,
    size_bytes: u64,
}

/// A file to be put in the store.
pub(crate) struct Source<'s> {
    pub(crate) root: &'s Root,
    pub(crate) path: &'s str,
    /// What it has to be, where that is known.
    pub(crate) expected: Option<Blake3>,
}

impl<'w> Store<'w> {
    pub(crate) fn new(control: &'w Control) -> Self {
        Store { control }
    }

    /// Whether a content is there.
    pub fn contains(&self, digest: &Blake3) -> bool {
        fs::symlink_metadata(self.path(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Puts bytes; they are durable when this returns.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<Blake3, StoreError> {
        let digest = Blake3::of(bytes);
        if self.contains(&digest) {
            return Ok(digest);
        }
        let (temporary, mut file) = self.new_file()?;
        file.write_all(bytes).map_err(failed("write", &temporary))?;
        let written = Written { temporary, digest, size_bytes: bytes.len() as u64 };
        self.name_all(vec![written], 1)?;
        Ok(digest)
    }

    /// Puts files, in parallel; they are durable when this returns. Gives their digests and sizes in the same order.
    pub(crate) fn put_files(&self, sources: &[Source<'_>]) -> Result<Vec<(Blake3, u64)>, StoreError> {
        let write = |source: &Source<'_>| self.write(source);
        let written: Vec<Written> = sources.into_par_iter().map(write).collect::<Result<_, _>>()?;
        let put = written.iter().map(|written| (written.digest, written.size_bytes)).collect();
        self.name_all(written, sources.len())?;
        Ok(put)
    }

    fn write(&self, source: &Source<'_>) -> Result<Written, StoreError> {
        let unreadable = |error| StoreError::Source { path: source.root.at(source.path), source: error };
        let from = source.root.file(source.path).map_err(unreadable)?;
        let guess_bytes = from.metadata().map_err(unreadable)?.len();
        let (temporary, to) = self.new_file()?;
        let copied = content::copy(&from, &to, guess_bytes).map_err(failed("write", &temporary));
        let is_expected =
            copied.as_ref().is_ok_and(|(digest, _)| source.expected.is_none_or(|it| it == *digest));
        if !is_expected {
            let _ = fs::remove_file(&temporary);
        }
        let (digest, size_bytes) = copied?;
        match is_expected {
            true => Ok(Written { temporary, digest, size_bytes }),
            false => Err(StoreError::Changed(source.path.to_owned())),
        }
    }

    /// Makes what was written durable, then names it, then makes the names durable.
    fn name_all(&self, written: Vec<Written>, count: usize) -> Result<(), StoreError> {
        let objects = self.control.objects();
        if count >= SYNC_ALL_FROM {
            sync_file_system(&objects)?;
        } else {
            for written in &written {
                let path = &written.temporary;
                File::open(path).and_then(|file| file.sync_all()).map_err(failed("sync", path))?;
            }
        }
        let mut folders: Vec<PathBuf> = Vec::new();
        for written in written {
            let path = self.path(&written.digest);
            let folder = path.parent().unwrap_or(&objects).to_owned();
            make_private(&folder)?;
            fs::rename(&written.temporary, &path).map_err(failed("name", &path))?;
            folders.push(folder);
        }
        if count >= SYNC_ALL_FROM {
            return Ok(sync_file_system(&objects)?);
        }
        folders.sort_unstable();
        folders.dedup();
        folders.iter().try_for_each(|folder| sync_folder(folder))?;
        Ok(sync_folder(&objects)?)
    }

    /// A content's bytes, checked.
    ///
    /// # Errors
    /// When it is not there, damaged, or larger than `max_bytes`.
    pub fn read(&self, digest: &Blake3, max_bytes: u64) -> Result<Vec<u8>, StoreError> {
        let (file, path) = self.open(digest)?;
        let mut bytes = Vec::new();
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        if bytes.len() as u64 > max_bytes {
            return Err(StoreError::TooLarge { digest: *digest, max_bytes });
        }
        match Blake3::of(&bytes) == *digest {
            true => Ok(bytes),
            false => Err(StoreError::Damaged(*digest)),
        }
    }

    /// A content's digests under every name it has, checked.
    ///
    /// # Errors
    /// When it is not there or damaged.
    pub fn digests(&self, digest: &Blake3) -> Result<ContentDigests, StoreError> {
        let (mut file, path) = self.open(digest)?;
        let size_bytes = file.metadata().map_err(failed("read", &path))?.len();
        let mut hasher = ContentHasher::new(size_bytes);
        let read = content::each_chunk(&mut file, size_bytes, |chunk| {
            hasher.update(chunk);
            Ok(())
        });
        read.map_err(failed("read", &path))?;
        let digests = hasher.finish();
        if digests.blake3 == *digest { Ok(digests) } else { Err(StoreError::Damaged(*digest)) }
    }

    /// Copies a content into an empty file open for reading and writing; what arrived is checked.
    pub(crate) fn copy_to(&self, digest: &Blake3, to: &File, at: &Path) -> Result<(), StoreError> {
        let (file, path) = self.open(digest)?;
        let size_bytes = file.metadata().map_err(failed("read", &path))?.len();
        let (copied, _) = content::copy(&file, to, size_bytes).map_err(failed("write", at))?;
        if copied == *digest { Ok(()) } else { Err(StoreError::Damaged(*digest)) }
    }

    fn open(&self, digest: &Blake3) -> Result<(File, PathBuf), StoreError> {
        let path = self.path(digest);
        match File::open(&path) {
            Ok(file) => Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing(*digest)),
            Err(error) => Err(failed("open", &path)(error).into()),
        }
    }

    pub(crate) fn path(&self, digest: &Blake3) -> PathBuf {
        let name = digest.to_string();
        let (folder, rest) = name.split_at_checked(2).unwrap_or(("", &name));
        self.control.objects().join(folder).join(rest)
    }

    fn new_file(&self) -> Result<(PathBuf, File), StoreError> {
        let path = self.control.temporary();
        let opened = File::options().read(true).write(true).create_new(true).mode(0o400).open(&path);
        let file = opened.map_err(failed("make", &path))?;
        Ok((path, file))
    }
}
