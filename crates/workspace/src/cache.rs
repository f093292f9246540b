//! The stat cache: folders as the last scan saw them. Owns when a cached file or folder may be used; refuses to
//! use an entry that could have changed unseen.
//!
//! A file or link is valid as long as its inode, size, modification and change time are the same, a folder's list of names as
//! long as the folder's are. Times have a granularity: a file that was written again within the granule in which it was read looks
//! unchanged. So an entry is never used unless its times are older than the start of the scan that wrote the cache; the
//! start is read from the clock of the workspace's own file system, and only files on that device are cached. The cache
//! is replaced as a whole and has a checksum; one that is torn or damaged, or of another device, is ignored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::digest::Blake3;
use rustix::fs::Stat;

use crate::node::TreeNode;
use crate::tree::{Entry, Folder, Listed, What};

const HEADER: &[u8] = b"crealeph-cache-v3\n";
const DIGEST_BYTES: usize = 32;
/// More than the cache of the largest workspace; a larger file is not ours.
const MAX_BYTES: u64 = 1 << 30;
/// Deeper than any workspace may be.
const MAX_DEPTH: usize = 1_000;

const FILE: u8 = 0;
const EXECUTABLE: u8 = 1;
const LINK: u8 = 2;
const FOLDER: u8 = 3;
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;

/// A time as a file system reports it: seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileTime(i64, u32);

/// The facts that show that a file is still the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

    pub(crate) fn is_older_than(&self, time: FileTime) -> bool {
        self.modified < time && self.changed < time
    }
}

/// The result of the last scan.
#[derive(Debug)]
pub(crate) struct Cache {
    /// When that scan started.
    started: FileTime,
    /// The device of everything in it.
    device: u64,
    root: Arc<Folder>,
}

impl Cache {
    /// The result of a scan that started then.
    pub(crate) fn new(started: FileTime, device: u64, root: Arc<Folder>) -> Self {
        Cache { started, device, root }
    }

    /// Reads a cache; one that is missing, torn, damaged or of another device is ignored.
    pub(crate) fn read(path: &Path, device: u64) -> Option<Self> {
        let is_small = fs::symlink_metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES);
        let bytes = if is_small { fs::read(path).ok()? } else { return None };
        Cache::parse(&bytes).filter(|cache| cache.device == device)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let body_bytes = bytes.len().checked_sub(DIGEST_BYTES)?;
        let (body, checksum) = bytes.split_at_checked(body_bytes)?;
        if checksum_of(body).as_bytes() != checksum {
            return None;
        }
        let mut reader = Reader(body.strip_prefix(HEADER)?);
        let (started, device) = (reader.time()?, reader.u64()?);
        let root = reader.folder(MAX_DEPTH)?;
        reader.0.is_empty().then_some(Cache { started, device, root: Arc::new(root) })
    }

    pub(crate) fn root(&self) -> &Arc<Folder> {
        &self.root
    }

    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Whether an entry with these facts now is the one that the scan saw with those facts then.
    pub(crate) fn believes(&self, now: &Identity, then: Option<&Identity>) -> bool {
        then == Some(now) && now.is_older_than(self.started)
    }

    /// Its written form.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.root.len() * 128 + 256);
        bytes.extend_from_slice(HEADER);
        push_time(&mut bytes, self.started);
        bytes.extend_from_slice(&self.device.to_le_bytes());
        push_folder(&mut bytes, &self.root);
        let checksum = checksum_of(&bytes);
        bytes.extend_from_slice(checksum.as_bytes());
        bytes
    }
}

fn checksum_of(body: &[u8]) -> Blake3 {
    Blake3::from_bytes(*blake3::Hasher::new().update_rayon(body).finalize().as_bytes())
}

/// A cache to be written: its file is created when the scan starts, which gives the time.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: fs::File,
    started: FileTime,
}

impl CacheWriter {
    /// Starts a cache at `path`; `temporary` is on the same file system and belongs to this writer.
    pub(crate) fn start(path: PathBuf, temporary: PathBuf) -> io::Result<Self> {
        let file = fs::File::create_new(&temporary)?;
        let started = Identity::of(&rustix::fs::fstat(&file)?).changed;
        Ok(CacheWriter { path, temporary, file, started })
    }

    /// When the scan started, by the file system's clock.
    pub(crate) fn started(&self) -> FileTime {
        self.started
    }

    /// Writes the cache and puts it in place. It is not made durable: a torn one is detected by its checksum.
    pub(crate) fn finish(mut self, text: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut self.file, text)?;
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

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    // Names and targets are at most as long as a path may be.
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn push_identity(bytes: &mut Vec<u8>, identity: Option<&Identity>) {
    let Some(identity) = identity else { return bytes.push(ABSENT) };
    bytes.push(PRESENT);
    bytes.extend_from_slice(&identity.inode.to_le_bytes());
    bytes.extend_from_slice(&identity.size_bytes.to_le_bytes());
    push_time(bytes, identity.modified);
    push_time(bytes, identity.changed);
}

fn push_folder(bytes: &mut Vec<u8>, folder: &Folder) {
    bytes.extend_from_slice(folder.digest().as_bytes());
    let listed = folder.listed();
    push_identity(bytes, listed.map(|listed| &listed.identity));
    match listed.and_then(|listed| listed.rules) {
        None => bytes.push(ABSENT),
        Some(rules) => {
            bytes.push(PRESENT);
            bytes.extend_from_slice(rules.as_bytes());
        }
    }
    bytes.extend_from_slice(&(folder.entries().len() as u64).to_le_bytes());
    for Entry { name, what } in folder.entries() {
        push_text(bytes, name);
        match what {
            What::Folder(folder) => {
                bytes.push(FOLDER);
                push_folder(bytes, folder);
            }
            What::TreeNode(TreeNode::Symlink { target }, identity) => {
                bytes.push(LINK);
                push_text(bytes, target);
                push_identity(bytes, identity.as_ref());
            }
            What::TreeNode(TreeNode::File { digest, size_bytes, executable }, identity) => {
                bytes.push(if *executable { EXECUTABLE } else { FILE });
                bytes.extend_from_slice(digest.as_bytes());
                bytes.extend_from_slice(&size_bytes.to_le_bytes());
                push_identity(bytes, identity.as_ref());
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    fn time(&mut self) -> Option<FileTime> {
        let seconds = i64::from_le_bytes(self.take()?);
        Some(FileTime(seconds, u32::from_le_bytes(self.take()?)))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn digest(&mut self) -> Option<Blake3> {
        Some(Blake3::from_bytes(self.take()?))
    }

    fn identity(&mut self) -> Option<Option<Identity>> {
        if self.take()? == [ABSENT] {
            return Some(None);
        }
        let (inode, size_bytes) = (self.u64()?, self.u64()?);
        Some(Some(Identity { inode, size_bytes, modified: self.time()?, changed: self.time()? }))
    }

    fn folder(&mut self, depth_left: usize) -> Option<Folder> {
        let depth_left = depth_left.checked_sub(1)?;
        let digest = self.digest()?;
        let identity = self.identity()?;
        let rules = if self.take()? == [ABSENT] { None } else { Some(self.digest()?) };
        let count = usize::try_from(self.u64()?).ok()?;
        let mut entries = Vec::with_capacity(count.min(self.0.len()));
        for _ in 0..count {
            let name = self.text()?.into();
            let what = match self.take()? {
                [FOLDER] => What::Folder(Arc::new(self.folder(depth_left)?)),
                [LINK] => {
                    let target = self.text()?.into();
                    What::TreeNode(TreeNode::Symlink { target }, self.identity()?)
                }
                [kind] => {
                    let (digest, size_bytes) = (self.digest()?, self.u64()?);
                    let node = TreeNode::File { digest, size_bytes, executable: kind == EXECUTABLE };
                    What::TreeNode(node, self.identity()?)
                }
            };
            entries.push(Entry { name, what });
        }
        Some(Folder::known(digest, entries, identity.map(|identity| Listed { identity, rules })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(changed: i64) -> Identity {
        Identity { inode: 7, size_bytes: 3, modified: FileTime(1, 0), changed: FileTime(changed, 5) }
    }

    fn entry(name: &str, what: What) -> Entry {
        Entry { name: name.into(), what }
    }

    /// A cache of a scan that started at 100, with one entry of each kind that changed at this time.
    fn cache(changed: i64) -> Cache {
        let file = |executable| {
            let node = TreeNode::File { digest: Blake3::of(b"x"), size_bytes: 1, executable };
            What::TreeNode(node, Some(identity(changed)))
        };
        let link = What::TreeNode(TreeNode::Symlink { target: "a".into() }, None);
        let below = Folder::new(vec![entry("l", link), entry("x", file(true))], None);
        let listed = Listed { identity: identity(changed), rules: Some(Blake3::of(b"*.log")) };
        let entries = vec![entry("a", file(false)), entry("d", What::Folder(Arc::new(below)))];
        Cache::new(FileTime(100, 5), 3, Arc::new(Folder::new(entries, Some(listed))))
    }

    fn write(place: &Path, cache: &Cache) -> PathBuf {
        let path = place.join("cache");
        CacheWriter::start(path.clone(), place.join("new")).unwrap().finish(&cache.text()).unwrap();
        path
    }

    #[test]
    fn what_was_written_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = write(place.path(), &cache(99));
        let read = Cache::read(&path, 3).unwrap();
        assert_eq!(read.text(), cache(99).text());
        assert_eq!(read.root().digest(), cache(99).root().digest());
        assert_eq!((read.root().len(), read.root().listed().unwrap().identity), (3, identity(99)));
        assert!(Cache::read(&path, 4).is_none(), "another device");
        assert!(Cache::read(&place.path().join("none"), 3).is_none());
    }

    #[test]
    fn an_entry_is_believed_only_if_it_is_older_than_the_scan() {
        for (changed, is_believed) in [(99, true), (100, false), (101, false)] {
            let then = identity(changed);
            assert_eq!(cache(changed).believes(&then, Some(&then)), is_believed, "{changed}");
        }
        let then = identity(99);
        assert!(!cache(99).believes(&identity(98), Some(&then)));
        assert!(!cache(99).believes(&Identity { inode: 8, ..then }, Some(&then)));
        assert!(!cache(99).believes(&then, None));
    }

    #[test]
    fn a_damaged_or_torn_cache_is_no_cache() {
        let whole = cache(99).text();
        assert!(Cache::parse(&whole).is_some());
        for end in 0..whole.len() {
            assert!(Cache::parse(&whole[..end]).is_none(), "{end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(Cache::parse(&damaged).is_none(), "{at}");
        }
    }
}
