//! The stat cache: the digest of a file that has not changed since it was last read. Owns when an entry may be believed;
//! refuses to believe one that could have changed unseen.
//!
//! An entry holds for a file with the same inode, size, modification and change time, under whatever name: a name is no part
//! of a file's content. Times have a grain: a file that
//! was written again within the grain in which it was read looks unchanged. So an entry whose times are not older than
//! the start of the scan that wrote the cache is never believed; the start is told by the clock of the workspace's own
//! file system. The cache is replaced as a whole and carries a checksum; one that is torn or damaged is no cache.

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Blake3;
use rustix::fs::Stat;

const HEADER: &[u8] = b"crealeph-cache-v2\n";
const DIGEST_BYTES: usize = 32;
/// Two numbers, two times and a digest.
const ENTRY_BYTES: usize = 8 + 8 + 12 + 12 + DIGEST_BYTES;
/// More than the cache of the largest workspace; a larger file is none of ours.
const MAX_BYTES: u64 = 1 << 30;

/// A time as a file system tells it: seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileTime(i64, u32);

/// What says that a file is still the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) inode: u64,
    pub(crate) size_bytes: u64,
    modified: FileTime,
    changed: FileTime,
}

impl Identity {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the fields of a stat have other types on other processors"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        Identity {
            inode: stat.st_ino as u64,
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified: FileTime(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: FileTime(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }

    fn is_older_than(&self, time: FileTime) -> bool {
        self.modified < time && self.changed < time
    }
}

/// The digests of files as the last scan saw them.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// By inode, which is part of the identity: a file system has handed them out one by one, so they are spread as they are.
    entries: HashMap<u64, (Identity, Blake3), BuildHasherDefault<InodeHasher>>,
    /// How many it was written with: names of one file count each, and so do those that cannot be believed.
    written: usize,
}

#[derive(Default)]
struct InodeHasher(u64);

impl Hasher for InodeHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The map takes its places from the low bits and its tags from the high ones.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Cache {
    /// Reads a cache; one that is missing, torn or damaged is empty. Entries that cannot be believed are left out.
    pub(crate) fn read(path: &Path) -> Self {
        let is_small = fs::symlink_metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES);
        let bytes = if is_small { fs::read(path).unwrap_or_default() } else { Vec::new() };
        Cache::parse(&bytes).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let body_bytes = bytes.len().checked_sub(DIGEST_BYTES)?;
        let (body, checksum) = bytes.split_at_checked(body_bytes)?;
        if Blake3::of(body).as_bytes() != checksum {
            return None;
        }
        let mut reader = Reader(body.strip_prefix(HEADER)?);
        let started = reader.time()?;
        let count = usize::try_from(reader.u64()?).ok()?;
        if reader.0.len() != count.checked_mul(ENTRY_BYTES)? {
            return None;
        }
        let mut entries = HashMap::with_capacity_and_hasher(count, BuildHasherDefault::default());
        for _ in 0..count {
            let identity = Identity {
                inode: reader.u64()?,
                size_bytes: reader.u64()?,
                modified: reader.time()?,
                changed: reader.time()?,
            };
            let digest = Blake3::from_bytes(reader.take(DIGEST_BYTES)?.try_into().ok()?);
            if identity.is_older_than(started) {
                entries.insert(identity.inode, (identity, digest));
            }
        }
        reader.0.is_empty().then_some(Cache { entries, written: count })
    }

    /// The digest of a file, if it is still the one that was read.
    pub(crate) fn digest(&self, identity: &Identity) -> Option<Blake3> {
        self.entries.get(&identity.inode).filter(|(known, _)| known == identity).map(|(_, digest)| *digest)
    }

    pub(crate) fn written(&self) -> usize {
        self.written
    }
}

/// A cache to be written: its file is made when the scan starts, which tells the time.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: fs::File,
    started: FileTime,
}

impl CacheWriter {
    /// Starts a cache at `path`; `temporary` lies on the same file system and is this writer's own.
    pub(crate) fn start(path: PathBuf, temporary: PathBuf) -> io::Result<Self> {
        let file = fs::File::create_new(&temporary)?;
        let started = Identity::of(&rustix::fs::fstat(&file)?).changed;
        Ok(CacheWriter { path, temporary, file, started })
    }

    /// Writes the entries and puts the cache in place. It is not made durable: a torn one is known by its checksum.
    pub(crate) fn finish(mut self, entries: &[(Identity, Blake3)]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES + 128);
        bytes.extend_from_slice(HEADER);
        push_time(&mut bytes, self.started);
        bytes.extend_from_slice(&(entries.len() as u64).to_le_bytes());
        for (identity, digest) in entries {
            bytes.extend_from_slice(&identity.inode.to_le_bytes());
            bytes.extend_from_slice(&identity.size_bytes.to_le_bytes());
            push_time(&mut bytes, identity.modified);
            push_time(&mut bytes, identity.changed);
            bytes.extend_from_slice(digest.as_bytes());
        }
        let checksum = Blake3::of(&bytes);
        bytes.extend_from_slice(checksum.as_bytes());
        io::Write::write_all(&mut self.file, &bytes)?;
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        // Renamed away when it was finished; otherwise there is nothing to keep.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn push_time(bytes: &mut Vec<u8>, time: FileTime) {
    bytes.extend_from_slice(&time.0.to_le_bytes());
    bytes.extend_from_slice(&time.1.to_le_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn time(&mut self) -> Option<FileTime> {
        let seconds = i64::from_le_bytes(self.take(8)?.try_into().ok()?);
        Some(FileTime(seconds, u32::from_le_bytes(self.take(4)?.try_into().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(changed: i64) -> Identity {
        Identity { inode: 7, size_bytes: 3, modified: FileTime(1, 0), changed: FileTime(changed, 5) }
    }

    /// A cache of one entry that changed at this time, as it reads back.
    fn written(place: &Path, changed: i64) -> PathBuf {
        let path = place.join("cache");
        let mut writer = CacheWriter::start(path.clone(), place.join("new")).unwrap();
        writer.started = FileTime(100, 5);
        writer.finish(&[(identity(changed), Blake3::of(b"x"))]).unwrap();
        path
    }

    #[test]
    fn an_entry_is_believed_only_if_it_is_older_than_the_scan() {
        let place = tempfile::tempdir().unwrap();
        for (changed, is_believed) in [(99, true), (100, false), (101, false)] {
            let cache = Cache::read(&written(place.path(), changed));
            let found = cache.digest(&identity(changed));
            assert_eq!(found.is_some(), is_believed, "{changed}");
        }
        let cache = Cache::read(&written(place.path(), 99));
        assert_eq!(cache.digest(&identity(98)), None);
        assert_eq!(cache.digest(&Identity { inode: 8, ..identity(99) }), None);
    }

    #[test]
    fn a_damaged_or_torn_cache_is_no_cache() {
        let place = tempfile::tempdir().unwrap();
        let path = written(place.path(), 99);
        let whole = fs::read(&path).unwrap();
        assert_eq!(Cache::read(&path).written(), 1);
        for end in 0..whole.len() {
            assert!(Cache::parse(&whole[..end]).is_none(), "{end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(Cache::parse(&damaged).is_none(), "{at}");
        }
        assert_eq!(Cache::read(&place.path().join("none")).written(), 0);
    }
}
