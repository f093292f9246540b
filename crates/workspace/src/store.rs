//! The content-addressed store: contents by their BLAKE3, each once. Ensures that a content is durable before it has its
//! name, and that it is read back unchanged; refuses to return anything else.
//!
//! A content may share its blocks with the file it came from if the file system can, but never the file itself, so
//! no one who writes to a workspace writes to its store. A content that the current commit of git has, byte by byte, is not
//! copied but referred to.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::{Blake3, ContentDigests, ContentHasher, GitHash};
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::content;
use crate::control::{Control, ControlError, failed, make_private, sync_file_system, sync_folder};
use crate::durable::sync_together;
use crate::git::objects::MAX_BLOB_BYTES;
use crate::rooted::Root;

/// From this many contents on, the file system is synced once instead of each file.
const SYNC_ALL_FROM: usize = 64;

/// Why the store cannot accept or return a content.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's files cannot be read or written.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The store does not have the content.
    #[error("the store does not hold `{0}`; it was never put there, or was removed")]
    Missing(Blake3),
    /// The content is git's, and git no longer has it.
    #[error("the content `{digest}` is git's `{}`, and the repository no longer has it; fetch it again", .blob.as_str())]
    LostByGit {
        /// Which.
        digest: Blake3,
        /// Git's name of it.
        blob: GitHash,
    },
    /// Git's objects cannot be read for a content.
    #[error("cannot read `{}` from git; check that `git cat-file` works in this repository", .blob.as_str())]
    Git {
        /// Git's name of it.
        blob: GitHash,
        /// Why.
        source: io::Error,
    },
    /// The content does not match its name.
    #[error("the stored content `{0}` is damaged; restore `.crealeph` from a copy")]
    Damaged(Blake3),
    /// The content is larger than the caller allows.
    #[error("the stored content `{digest}` is larger than {max_bytes} bytes")]
    TooLarge {
        /// Which.
        digest: Blake3,
        /// The bound.
        max_bytes: u64,
    },
    /// A file to be kept cannot be read.
    #[error("cannot read `{}` to keep it; fix its permissions", .path.display())]
    Source {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file to be kept has changed.
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
    /// Its expected content, if that is known.
    pub(crate) expected: Option<Blake3>,
}

impl Source<'_> {
    /// All names of its content; `None` if it is too large to be read from git, or cannot be read.
    fn digests(&self) -> Option<ContentDigests> {
        let mut file = self.root.file(self.path).ok()?;
        let size_bytes = file.metadata().ok().filter(|data| data.len() <= MAX_BLOB_BYTES)?.len();
        let mut hasher = ContentHasher::new(size_bytes);
        let read = content::each_chunk(&mut file, size_bytes, |chunk| {
            hasher.update(chunk);
            Ok(())
        });
        read.ok().map(|_| hasher.finish())
    }
}

/// A content in its place.
enum Content {
    Copy(File, PathBuf),
    FromGit(Vec<u8>),
}

impl<'w> Store<'w> {
    pub(crate) fn new(control: &'w Control) -> Self {
        Store { control }
    }

    /// Whether the store has a content, or refers to it.
    pub fn contains(&self, digest: &Blake3) -> bool {
        self.has_copy(digest) || self.control.references().is_ok_and(|known| known.contains_key(digest))
    }

    pub(crate) fn has_copy(&self, digest: &Blake3) -> bool {
        fs::symlink_metadata(self.path(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Removes the files that are, byte by byte, what git's current commit has at their paths. Returns which blobs they are,
    /// if that is not recorded yet.
    pub(crate) fn blobs_of(
        &self,
        sources: &mut Vec<Source<'_>>,
    ) -> Result<Vec<(Blake3, GitHash)>, StoreError> {
        let Some(git) = self.control.git.as_ref().filter(|_| !sources.is_empty()) else {
            return Ok(Vec::new());
        };
        let referred = self.control.references()?;
        let paths: Vec<&str> = sources.iter().map(|source| source.path).collect();
        let at: BTreeMap<String, GitHash> = (git.find)(&paths).into_iter().collect();
        let is_same = |source: &Source<'_>| {
            let (blob, expected) = (at.get(source.path)?, source.expected?);
            let is_same = referred.get(&expected) == Some(blob)
                || source.digests().is_some_and(|is| is.blake3 == expected && is.git_blob == *blob);
            is_same.then(|| (expected, blob.clone()))
        };
        let mut blobs: BTreeMap<Blake3, GitHash> = sources.par_iter().filter_map(is_same).collect();
        sources.retain(|source| source.expected.is_none_or(|expected| !blobs.contains_key(&expected)));
        blobs.retain(|digest, blob| referred.get(digest) != Some(blob));
        Ok(blobs.into_iter().collect())
    }

    /// Puts bytes; they are durable when this returns.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<Blake3, StoreError> {
        let digest = Blake3::of(bytes);
        if self.has_copy(&digest) {
            return Ok(digest);
        }
        let (temporary, mut file) = self.new_file()?;
        file.write_all(bytes).map_err(failed("write", &temporary))?;
        let written = Written { temporary, digest, size_bytes: bytes.len() as u64 };
        self.name_all(vec![written], 1)?;
        Ok(digest)
    }

    /// Puts a content that is staged, or that git has, unless the store has it; durable when this returns.
    ///
    /// # Errors
    /// If it cannot be found or written, or is longer than this.
    pub fn copy(&self, digest: &Blake3, size_bytes: u64) -> Result<(), StoreError> {
        match self.has_copy(digest) {
            true => Ok(()),
            false => self.put(&self.read(digest, size_bytes)?).map(drop),
        }
    }

    /// Puts files, in parallel; they are durable when this returns. Returns their digests and sizes in the same order.
    pub(crate) fn put_files(&self, sources: &[Source<'_>]) -> Result<Vec<(Blake3, u64)>, StoreError> {
        let write = |source: &Source<'_>| self.write(source);
        let tried: Vec<Result<Written, StoreError>> = sources.into_par_iter().map(write).collect();
        let mut written = Vec::with_capacity(tried.len());
        let mut failed = None;
        for one in tried {
            match one {
                Ok(one) => written.push(one),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            for one in written {
                let _ = fs::remove_file(&one.temporary);
            }
            return Err(error);
        }
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

    /// Makes new files durable, then names them, then makes the names durable.
    fn name_all(&self, written: Vec<Written>, count: usize) -> Result<(), StoreError> {
        let objects = self.control.objects();
        if count >= SYNC_ALL_FROM {
            sync_file_system(&objects)?;
        } else {
            sync_together(&written, |written| {
                let path = &written.temporary;
                File::open(path).and_then(|file| file.sync_all()).map_err(failed("sync", path))
            })?;
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
        sync_together(&folders, |folder| sync_folder(folder))?;
        Ok(sync_folder(&objects)?)
    }

    /// A content's bytes, checked.
    ///
    /// # Errors
    /// If it is missing, damaged, or larger than `max_bytes`.
    pub fn read(&self, digest: &Blake3, max_bytes: u64) -> Result<Vec<u8>, StoreError> {
        let too_large = || StoreError::TooLarge { digest: *digest, max_bytes };
        let bytes = match self.open(digest)? {
            Content::FromGit(bytes) => bytes,
            Content::Copy(file, path) => {
                let mut bytes = Vec::new();
                let mut bounded = file.take(max_bytes.saturating_add(1));
                bounded.read_to_end(&mut bytes).map_err(failed("read", &path))?;
                bytes
            }
        };
        if bytes.len() as u64 > max_bytes {
            return Err(too_large());
        }
        match Blake3::of(&bytes) == *digest {
            true => Ok(bytes),
            false => Err(StoreError::Damaged(*digest)),
        }
    }

    /// The same for a content that was copied or is staged; one that is git's is missing.
    pub(crate) fn read_copy(&self, digest: &Blake3, max_bytes: u64) -> Result<Vec<u8>, StoreError> {
        let is_here = self.has_copy(digest) || self.control.staged(digest).is_some();
        if is_here { self.read(digest, max_bytes) } else { Err(StoreError::Missing(*digest)) }
    }

    /// A content's digests under every algorithm, checked.
    ///
    /// # Errors
    /// If it is missing or damaged.
    pub fn digests(&self, digest: &Blake3) -> Result<ContentDigests, StoreError> {
        let digests = match self.open(digest)? {
            Content::FromGit(bytes) => ContentDigests::of(&bytes),
            Content::Copy(mut file, path) => {
                let size_bytes = file.metadata().map_err(failed("read", &path))?.len();
                let mut hasher = ContentHasher::new(size_bytes);
                let read = content::each_chunk(&mut file, size_bytes, |chunk| {
                    hasher.update(chunk);
                    Ok(())
                });
                read.map_err(failed("read", &path))?;
                hasher.finish()
            }
        };
        if digests.blake3 == *digest { Ok(digests) } else { Err(StoreError::Damaged(*digest)) }
    }

    /// Copies a content into an empty file open for reading and writing, and checks the copy.
    pub(crate) fn copy_to(&self, digest: &Blake3, mut to: &File, at: &Path) -> Result<(), StoreError> {
        let copied = match self.open(digest)? {
            Content::FromGit(bytes) => {
                to.write_all(&bytes).map_err(failed("write", at))?;
                Blake3::of(&bytes)
            }
            Content::Copy(file, path) => {
                let size_bytes = file.metadata().map_err(failed("read", &path))?.len();
                content::copy(&file, to, size_bytes).map_err(failed("write", at))?.0
            }
        };
        if copied == *digest { Ok(()) } else { Err(StoreError::Damaged(*digest)) }
    }

    fn open(&self, digest: &Blake3) -> Result<Content, StoreError> {
        let path = self.path(digest);
        match File::open(&path) {
            Ok(file) => return Ok(Content::Copy(file, path)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("open", &path)(error).into());
            }
            Err(_) => {}
        }
        if let Some((file, path)) = self.control.staged(digest) {
            return Ok(Content::Copy(file, path));
        }
        let blob = self.control.reference(digest)?.ok_or(StoreError::Missing(*digest))?;
        let git = self.control.git.as_ref().ok_or(StoreError::Missing(*digest))?;
        match (git.read)(&blob) {
            Ok(Some(bytes)) => Ok(Content::FromGit(bytes)),
            Ok(None) => Err(StoreError::LostByGit { digest: *digest, blob }),
            Err(source) => Err(StoreError::Git { blob, source }),
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
