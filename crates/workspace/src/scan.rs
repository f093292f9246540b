//! Reading a workspace's state from its files (R26). Owns the walk, what is refused in it, and the bounds; follows no
//! link, reads nothing that is ignored, and reads no file again that the cache knows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crealeph_contracts::digest::Blake3;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::cache::{Cache, CacheWriter, Identity};
use crate::content;
use crate::git::{GitError, Tracked};
use crate::node::{Node, stays_inside, target_text};
use crate::path::{GIT, OUTSIDE_NAMES, PathFault, TreePath, join};
use crate::rooted::{Root, is_gone, stat_in};
use crate::rules::{FolderRules, IGNORE_FILE, IgnoreFiles, Rules, Scope, Verdict};
use crate::state::{FileAndFolder, State};

/// How often a file is read again when it changes under the reading.
const READ_TRIES: usize = 3;
/// How many refusals are told at once.
const MAX_REFUSALS: usize = 100;
const SET_ID_BITS: u32 = 0o6000;
const OWNER_EXECUTES: u32 = 0o100;

/// How much a workspace may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files and links.
    pub max_files: usize,
    /// Folders within folders.
    pub max_depth: usize,
    /// The size of one ignore file.
    pub max_ignore_file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_files: 1_000_000, max_depth: 200, max_ignore_file_bytes: 1 << 20 }
    }
}

/// Why something in a workspace cannot be part of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// A device, FIFO or socket.
    #[error("is a {0}; remove it or ignore it")]
    Special(&'static str),
    /// A file that changes who runs it.
    #[error("has a setuid or setgid bit; remove the bit with `chmod u-s,g-s`")]
    SetId,
    /// A link that leads out of the workspace, or might.
    #[error("is a link to `{0}`, which may lead outside the workspace; remove it or ignore it")]
    OutsideLink(String),
    /// A name or link target that is not UTF-8.
    #[error("has a name or link target that is not UTF-8; rename it or ignore it")]
    NotUtf8,
    /// A path no receipt can hold.
    #[error("{0}")]
    Path(PathFault),
}

/// Something that cannot be part of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {reason}")]
pub struct Refusal {
    /// Where it is; bytes that are no text are replaced.
    pub path: String,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`; mend its permissions or ignore it", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The workspace holds what no state can.
    #[error("the workspace holds what no state can: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Refusal>),
    /// There is more than the limits allow.
    #[error(
        "`{path}` goes past the limit of {limit} {what}; ignore what is built or fetched, or raise `{setting}`"
    )]
    TooMuch {
        /// Where the limit was hit.
        path: String,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The name of the limit.
        setting: &'static str,
    },
    /// What git tracks cannot be known.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The tree changed under the reading.
    #[error(transparent)]
    Changing(#[from] FileAndFolder),
}

/// What a scan did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files and links in the state.
    pub entries: usize,
    /// Files whose content was read.
    pub read_files: usize,
    /// How much was read.
    pub read_bytes: u64,
}

/// A state with the rules it was read by.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) state: State,
    pub(crate) rules: Arc<Rules>,
    tally: Tally,
}

impl Snapshot {
    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What reading it took.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether the rules this state was read by ignore a file.
    pub fn ignores(&self, path: &TreePath) -> bool {
        self.rules.ignores(path.as_str().as_bytes(), false)
    }
}

/// Where a scan finds and leaves what it knows.
pub(crate) struct CacheFiles {
    pub(crate) path: PathBuf,
    pub(crate) temporary: PathBuf,
}

/// Reads the state beneath a root, with some ignore files as they would be, and keeps the cache if there is one.
pub(crate) fn scan(
    root: &Root,
    limits: &Limits,
    ignore_files: &IgnoreFiles,
    cache_files: Option<CacheFiles>,
) -> Result<Snapshot, ScanError> {
    // The cache is started before anything is looked at. That it cannot be written is no reason not to read.
    let writer = match &cache_files {
        Some(files) => CacheWriter::start(files.path.clone(), files.temporary.clone()).ok(),
        None => None,
    };
    let (cache, tracked) = rayon::join(
        || cache_files.as_ref().map(|files| Cache::read(&files.path)).unwrap_or_default(),
        || Tracked::around(root.path()),
    );
    let outermost = Scope::outermost(Arc::new(tracked?));
    let walk = Walk { root, limits, ignore_files, count: AtomicUsize::new(0) };
    let mut listing = walk.folder("", &outermost, 0)?;
    if !listing.refusals.is_empty() {
        listing.refusals.sort_by(|one, other| one.path.cmp(&other.path));
        listing.refusals.truncate(MAX_REFUSALS);
        return Err(ScanError::Refused(listing.refusals));
    }
    let reading = Reading { root, cache: &cache, device: device(root)? };
    let read: Vec<Option<Known>> =
        listing.found.into_par_iter().map(|found| reading.node(found)).collect::<Result<_, _>>()?;
    let mut read: Vec<Known> = read.into_iter().flatten().collect();
    read.par_sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let mut tally = Tally { entries: read.len(), ..Tally::default() };
    let mut known_files = 0;
    for known in &read {
        if let (Node::File { size_bytes, .. }, true) = (&known.node, known.was_read) {
            tally.read_files += 1;
            tally.read_bytes += size_bytes;
        }
        known_files += usize::from(known.identity.is_some());
    }
    if let Some(writer) = writer.filter(|_| tally.read_files > 0 || known_files != cache.written()) {
        let digests = read.iter().filter_map(|known| match (&known.node, known.identity) {
            (Node::File { digest, .. }, Some(identity)) => Some((identity, *digest)),
            _ => None,
        });
        let _ = writer.finish(&digests.collect::<Vec<_>>());
    }
    let entries = read.into_iter().map(|known| (known.path, known.node)).collect();
    Ok(Snapshot {
        state: State::new(entries)?,
        rules: Arc::new(Rules::new(outermost, listing.folders)),
        tally,
    })
}

/// A file or link whose content has not been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    File { executable: bool },
    Link { target: Box<str> },
}

impl Unread {
    /// Reads it where it lies.
    pub(crate) fn read(self, root: &Root, path: &str) -> Result<Node, ScanError> {
        let failed = |source| ScanError::Io { path: root.at(path), source };
        match self {
            Unread::Link { target } => Ok(Node::Symlink { target }),
            Unread::File { .. } => {
                let mut file = root.file(path).map_err(failed)?;
                Ok(read_whole(&mut file).map_err(failed)?.1)
            }
        }
    }
}

/// What is at a path beneath a root now; nothing where no file or link is.
pub(crate) fn unread_at(root: &Root, path: &str) -> Result<Result<Option<Unread>, RefusalReason>, ScanError> {
    let failed = |source| ScanError::Io { path: root.at(path), source };
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match root.folder(folder) {
        Ok(folder) => folder,
        Err(error) if is_gone(&error) => return Ok(Ok(None)),
        Err(error) => return Err(failed(error)),
    };
    let Some(stat) = stat_in(&folder, name).map_err(failed)? else { return Ok(Ok(None)) };
    let what = what_is(&folder, name.as_bytes(), path, &stat).map_err(failed)?;
    Ok(what.map(|what| match what {
        What::Folder => None,
        What::Link(target) => Some(Unread::Link { target }),
        What::File => Some(Unread::File { executable: stat.st_mode & OWNER_EXECUTES != 0 }),
    }))
}

/// What is under a name in a folder, wherever a link there leads; nothing where it is neither file nor link, or one that
/// no state can hold.
pub(crate) fn unread_in(
    folder: &impl std::os::fd::AsFd,
    name: &str,
    stat: &Stat,
) -> io::Result<Option<Unread>> {
    let executable = stat.st_mode & OWNER_EXECUTES != 0;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & SET_ID_BITS == 0 => Ok(Some(Unread::File { executable })),
        FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => Ok(target_text(&target).map(|target| Unread::Link { target })),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(errno.into()),
        },
        _ => Ok(None),
    }
}

/// The file under a name in a folder, read whole; nothing where it is no file.
pub(crate) fn file_at(folder: &impl std::os::fd::AsFd, name: &str) -> io::Result<Option<Node>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    Ok(Some(read_whole(&mut file)?.1))
}

/// The device cached identities are of; a workspace may hold others, whose clocks are not this one's.
fn device(root: &Root) -> Result<Option<u64>, ScanError> {
    let stat = root.folder("").and_then(|folder| Ok(rustix::fs::fstat(&folder)?));
    stat.map(|stat| Some(stat.st_dev)).map_err(|source| ScanError::Io { path: root.at(""), source })
}

/// A file or link that was met on the walk.
struct Found {
    path: TreePath,
    what: Pending,
}

enum Pending {
    File { identity: Identity, device: u64, executable: bool },
    Link(Box<str>),
}

/// What a walk found in a folder and below.
#[derive(Default)]
struct Listing {
    found: Vec<Found>,
    folders: BTreeMap<String, FolderRules>,
    refusals: Vec<Refusal>,
}

impl Listing {
    fn refuse(&mut self, path: &[u8], reason: RefusalReason) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push(Refusal { path: String::from_utf8_lossy(path).into_owned(), reason });
        }
    }

    fn absorb(&mut self, mut below: Listing) {
        self.found.append(&mut below.found);
        self.folders.append(&mut below.folders);
        self.refusals.append(&mut below.refusals);
        self.refusals.truncate(MAX_REFUSALS);
    }
}

struct Walk<'a> {
    root: &'a Root,
    limits: &'a Limits,
    ignore_files: &'a IgnoreFiles,
    count: AtomicUsize,
}

impl Walk<'_> {
    /// Lists a folder; those below it are listed in parallel, each opened on its own, so few are open at once.
    fn folder(&self, folder: &str, above: &Scope, depth: usize) -> Result<Listing, ScanError> {
        let failed = |source| ScanError::Io { path: self.root.at(folder), source };
        if depth > self.limits.max_depth {
            return Err(self.too_much(folder, "folders within folders", self.limits.max_depth, "max_depth"));
        }
        let opened = match self.root.folder(folder) {
            Ok(opened) => opened,
            Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Listing::default());
            }
            Err(error) => return Err(failed(error)),
        };
        let names = names(&opened).map_err(failed)?;
        let mut listing = Listing::default();
        let scope = self.enter(folder, above, depth, &names, &mut listing)?;
        let mut below = Vec::new();
        for (name, kind) in &names {
            if OUTSIDE_NAMES.iter().any(|outside| outside.as_bytes() == name.as_slice()) {
                continue;
            }
            let path: Vec<u8> =
                if folder.is_empty() { name.clone() } else { [folder.as_bytes(), b"/", name].concat() };
            let stat = match kind {
                FileType::Directory | FileType::Symlink => None,
                _ => {
                    match rustix::fs::statat(&opened, name.as_slice(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                    {
                        Ok(stat) => Some(stat),
                        Err(Errno::NOENT) => continue,
                        Err(errno) => return Err(failed(errno.into())),
                    }
                }
            };
            let kind = stat.as_ref().map_or(*kind, |stat| FileType::from_raw_mode(stat.st_mode));
            let verdict = scope.verdict(&path, kind == FileType::Directory);
            if verdict == Verdict::Ignored {
                continue;
            }
            let Ok(text) = std::str::from_utf8(&path) else {
                listing.refuse(&path, RefusalReason::NotUtf8);
                continue;
            };
            if kind == FileType::Directory {
                below.push((text.to_owned(), scope.below(verdict)));
                continue;
            }
            self.entry(&opened, name, text, kind, stat, &mut listing).map_err(failed)?;
            if self.count.fetch_add(1, Ordering::Relaxed) >= self.limits.max_files {
                return Err(self.too_much(text, "files", self.limits.max_files, "max_files"));
            }
        }
        drop(opened);
        let below: Vec<Listing> = below
            .into_par_iter()
            .map(|(path, scope)| self.folder(&path, &scope, depth + 1))
            .collect::<Result<_, _>>()?;
        below.into_iter().for_each(|below| listing.absorb(below));
        Ok(listing)
    }

    /// Notes one file or link, or refuses it.
    fn entry(
        &self,
        folder: &impl std::os::fd::AsFd,
        name: &[u8],
        path: &str,
        kind: FileType,
        stat: Option<Stat>,
        listing: &mut Listing,
    ) -> io::Result<()> {
        let what = match (kind, &stat) {
            (_, Some(stat)) => what_is(folder, name, path, stat)?,
            _ => link_in(folder, name, path)?,
        };
        let path = match TreePath::parse(path) {
            Ok(path) => path,
            Err(fault) => {
                listing.refuse(path.as_bytes(), RefusalReason::Path(fault));
                return Ok(());
            }
        };
        match (what, stat) {
            (Err(reason), _) => listing.refuse(path.as_str().as_bytes(), reason),
            (Ok(What::Link(target)), _) => listing.found.push(Found { path, what: Pending::Link(target) }),
            (Ok(What::File), Some(stat)) => {
                let executable = stat.st_mode & OWNER_EXECUTES != 0;
                let what = Pending::File { identity: Identity::of(&stat), device: stat.st_dev, executable };
                listing.found.push(Found { path, what });
            }
            // It is gone again, or became a folder.
            (Ok(What::Folder | What::File), _) => {}
        }
        Ok(())
    }

    /// What holds inside a folder: a nested repository starts afresh, an ignore file adds to what is above.
    fn enter(
        &self,
        folder: &str,
        above: &Scope,
        depth: usize,
        names: &[(Vec<u8>, FileType)],
        listing: &mut Listing,
    ) -> Result<Scope, ScanError> {
        let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted.as_bytes());
        let mut rules = FolderRules::default();
        let mut scope = above.clone();
        let may_be_entered = !above.is_only_tracked() || above.is_submodule(folder);
        if depth > 0 && has(GIT) && may_be_entered {
            rules.repository = Tracked::in_folder(&self.root.at(folder), folder)?.map(Arc::new);
            if let Some(tracked) = &rules.repository {
                scope = above.repository(Arc::clone(tracked));
            }
        }
        rules.text = match self.ignore_files.text(folder) {
            Some(text) => text,
            None if has(IGNORE_FILE) && !scope.is_only_tracked() => self.ignore_file(folder)?,
            None => None,
        };
        if let Some(text) = &rules.text {
            scope = scope.with_rules(text, folder);
        }
        if rules.text.is_some() || rules.repository.is_some() {
            listing.folders.insert(folder.to_owned(), rules);
        }
        Ok(scope)
    }

    fn ignore_file(&self, folder: &str) -> Result<Option<Box<[u8]>>, ScanError> {
        let path = join(folder, IGNORE_FILE);
        read_ignore_file(self.root, &path, self.limits.max_ignore_file_bytes)
    }

    fn too_much(&self, path: &str, what: &'static str, limit: usize, setting: &'static str) -> ScanError {
        ScanError::TooMuch { path: path.to_owned(), what, limit: limit as u64, setting }
    }
}

/// An ignore file's text; one that is a link or no file has none, as in git.
pub(crate) fn read_ignore_file(
    root: &Root,
    path: &str,
    max_bytes: u64,
) -> Result<Option<Box<[u8]>>, ScanError> {
    let failed = |source| ScanError::Io { path: root.at(path), source };
    let file = match root.file(path) {
        Ok(file) => file,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    let mut bounded = io::Read::take(&file, max_bytes + 1);
    io::Read::read_to_end(&mut bounded, &mut text).map_err(failed)?;
    if text.len() as u64 > max_bytes {
        let (what, setting) = ("bytes in one ignore file", "max_ignore_file_bytes");
        return Err(ScanError::TooMuch { path: path.to_owned(), what, limit: max_bytes, setting });
    }
    Ok(Some(text.into_boxed_slice()))
}

fn names(folder: &impl std::os::fd::AsFd) -> io::Result<Vec<(Vec<u8>, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    Ok(names)
}

enum What {
    File,
    Folder,
    Link(Box<str>),
}

fn what_is(
    folder: impl std::os::fd::AsFd,
    name: &[u8],
    path: &str,
    stat: &Stat,
) -> io::Result<Result<What, RefusalReason>> {
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & SET_ID_BITS != 0 => Err(RefusalReason::SetId),
        FileType::RegularFile => Ok(What::File),
        FileType::Directory => Ok(What::Folder),
        FileType::Symlink => return link_in(folder, name, path),
        FileType::Fifo => Err(RefusalReason::Special("FIFO")),
        FileType::Socket => Err(RefusalReason::Special("socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(RefusalReason::Special("device node")),
        FileType::Unknown => Err(RefusalReason::Special("thing of unknown kind")),
    })
}

fn link_in(
    folder: impl std::os::fd::AsFd,
    name: &[u8],
    path: &str,
) -> io::Result<Result<What, RefusalReason>> {
    let target = match rustix::fs::readlinkat(folder, std::ffi::OsStr::from_bytes(name), Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT | Errno::INVAL) => return Ok(Ok(What::Folder)),
        Err(errno) => return Err(errno.into()),
    };
    Ok(match target_text(&target) {
        None => Err(RefusalReason::NotUtf8),
        Some(target) if stays_inside(path, &target) => Ok(What::Link(target)),
        Some(target) => Err(RefusalReason::OutsideLink(target.into())),
    })
}

/// A path with what is there and, where it may be believed later, what says that it is still the same.
struct Known {
    path: TreePath,
    node: Node,
    identity: Option<Identity>,
    was_read: bool,
}

struct Reading<'a> {
    root: &'a Root,
    cache: &'a Cache,
    device: Option<u64>,
}

impl Reading<'_> {
    fn node(&self, found: Found) -> Result<Option<Known>, ScanError> {
        let path = found.path;
        let (identity, device, executable) = match found.what {
            Pending::Link(target) => {
                let node = Node::Symlink { target };
                return Ok(Some(Known { path, node, identity: None, was_read: false }));
            }
            Pending::File { identity, device, executable } => (identity, device, executable),
        };
        let is_here = self.device == Some(device);
        if let Some(digest) = self.cache.digest(&identity).filter(|_| is_here) {
            let node = Node::File { digest, size_bytes: identity.size_bytes, executable };
            return Ok(Some(Known { path, node, identity: Some(identity), was_read: false }));
        }
        let failed = |source| ScanError::Io { path: self.root.at(path.as_str()), source };
        let mut file = match self.root.file(path.as_str()) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(None);
        }
        for _ in 1..READ_TRIES {
            let (before, node, after) = read_whole(&mut file).map_err(failed)?;
            if before == after {
                let identity = is_here.then_some(after);
                return Ok(Some(Known { path, node, identity, was_read: true }));
            }
        }
        // It keeps changing. What was read last is what it was at some time; it is just not remembered.
        let (_, node, _) = read_whole(&mut file).map_err(failed)?;
        Ok(Some(Known { path, node, identity: None, was_read: true }))
    }
}

fn read_whole(file: &mut File) -> io::Result<(Identity, Node, Identity)> {
    let before = rustix::fs::fstat(&*file)?;
    io::Seek::rewind(file)?;
    let (digest, read_bytes) = content::digest(file, Identity::of(&before).size_bytes)?;
    let after = rustix::fs::fstat(&*file)?;
    Ok((Identity::of(&before), file_node(digest, &after, read_bytes), Identity::of(&after)))
}

fn file_node(digest: Blake3, stat: &Stat, size_bytes: u64) -> Node {
    Node::File { digest, size_bytes, executable: stat.st_mode & OWNER_EXECUTES != 0 }
}
