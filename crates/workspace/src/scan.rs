//! Reading a workspace's state from its files (R26). Owns the limits, the types of files and links, and the reasons for refusals.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::cache::Cache;
use crate::deadline::Deadline;
use crate::git::{GitError, Tracked};
use crate::node::{TreeNode, stays_inside, target_text};
use crate::path::{PathFault, TreePath};
use crate::rooted::{Root, is_gone, stat_in};
use crate::rules::{IgnoreFiles, Rules, Scope};
use crate::state::{FileAndFolder, State};
use crate::walk::{Walk, WalkFindings, read_whole};

/// How many refusals are listed at once.
pub(crate) const MAX_REFUSALS: usize = 100;
const SET_ID_BITS: u32 = 0o6000;
pub(crate) const OWNER_EXECUTES: u32 = 0o100;

/// The limits of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimits {
    /// Files and links.
    pub max_files: usize,
    /// Folders within folders.
    pub max_depth: usize,
    /// The size of one ignore file.
    pub max_ignore_file_bytes: u64,
}

impl Default for ScanLimits {
    fn default() -> Self {
        ScanLimits { max_files: 1_000_000, max_depth: 200, max_ignore_file_bytes: 1 << 20 }
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
    /// A path that is nested too deep.
    #[error("lies more than {0} folders deep, and the workspace could not be read again; move it up")]
    TooDeep(usize),
    /// A path that no receipt can contain.
    #[error("{0}")]
    Path(PathFault),
}

/// A path that cannot be part of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {reason}")]
pub struct Refusal {
    /// Where it is; bytes that are not text are replaced.
    pub path: String,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`; fix its permissions or ignore it", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The workspace contains files that no state can hold.
    #[error("the workspace has files that a state cannot contain: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Refusal>),
    /// There is more than the limits allow.
    #[error(
        "`{path}` exceeds the limit of {limit} {what}; ignore built and downloaded files, or raise `{setting}`"
    )]
    TooMuch {
        /// The path at which the limit was reached.
        path: String,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The name of the limit.
        setting: &'static str,
    },
    /// The tracked files cannot be known.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The tree changed while it was read.
    #[error(transparent)]
    Changing(#[from] FileAndFolder),
}

/// The statistics of a scan.
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
pub struct WorkspaceSnapshot {
    pub(crate) state: State,
    pub(crate) rules: Arc<Rules>,
    tally: Tally,
}

impl WorkspaceSnapshot {
    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The statistics of reading it.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether the rules by which this state was read ignore a file.
    pub fn ignores(&self, path: &TreePath) -> bool {
        self.rules.ignores(path.as_str().as_bytes(), false)
    }
}

/// Reads the state below a root, with some hypothetical ignore files, using the last scan's cache.
pub(crate) fn scan(
    root: &Root,
    limits: &ScanLimits,
    ignore_files: &IgnoreFiles,
    cache: Option<&Cache>,
    deadline: Deadline<'_>,
) -> Result<WorkspaceSnapshot, ScanError> {
    let outermost = Scope::outermost(Arc::new(Tracked::around(root.path())?));
    let device = device(root)?;
    let cache = cache.filter(|cache| cache.device() == device);
    let trusts_names = renews_times(root);
    let found = WalkFindings::default();
    let walk = Walk { root, limits, ignore_files, cache, device, trusts_names, deadline, found };
    let folder = walk.run(&outermost)?;
    let found = walk.found;
    let mut refusals = found.refusals.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !refusals.is_empty() {
        refusals.sort_by(|one, other| one.path.cmp(&other.path));
        return Err(ScanError::Refused(refusals));
    }
    let tally = Tally {
        entries: folder.len(),
        read_files: found.read_files.into_inner(),
        read_bytes: found.read_bytes.into_inner(),
    };
    let rules = found.rules.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(WorkspaceSnapshot { state: State::of(folder), rules: Arc::new(Rules::new(outermost, rules)), tally })
}

/// A file or link whose content has not been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    File { executable: bool, size_bytes: u64 },
    Link { target: Box<str> },
}

impl Unread {
    /// Reads it in place.
    pub(crate) fn read(
        &self,
        root: &Root,
        path: &str,
        deadline: Deadline<'_>,
    ) -> Result<TreeNode, ScanError> {
        let failed = |source| ScanError::Io { path: root.at(path), source };
        match self {
            Unread::Link { target } => Ok(TreeNode::Symlink { target: target.clone() }),
            Unread::File { .. } => {
                let mut file = root.file(path).map_err(failed)?;
                Ok(read_whole(&mut file, deadline).map_err(failed)?.1)
            }
        }
    }
}

/// The entry at a path below a root now; `None` if there is no file or link.
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
        Thing::Folder => None,
        Thing::Link(target) => Some(Unread::Link { target }),
        Thing::File => Some(unread_file(&stat)),
    }))
}

fn unread_file(stat: &Stat) -> Unread {
    Unread::File {
        executable: stat.st_mode & OWNER_EXECUTES != 0,
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
    }
}

/// The entry under a name in a folder, wherever a link there leads; `None` if it is neither file nor link, or one that
/// no state can hold.
pub(crate) fn unread_in(
    folder: &impl std::os::fd::AsFd,
    name: &str,
    stat: &Stat,
) -> io::Result<Option<Unread>> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & SET_ID_BITS == 0 => Ok(Some(unread_file(stat))),
        FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => Ok(target_text(&target).map(|target| Unread::Link { target })),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(errno.into()),
        },
        _ => Ok(None),
    }
}

/// The file under a name in a folder, read completely; `None` if it is not a file.
pub(crate) fn file_at(folder: &impl std::os::fd::AsFd, name: &str) -> io::Result<Option<TreeNode>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    Ok(Some(read_whole(&mut file, Deadline::NEVER)?.1))
}

/// The device of cached entries; a workspace may contain others, whose clocks are not this one's.
pub(crate) fn device(root: &Root) -> Result<u64, ScanError> {
    let stat = root.folder("").and_then(|folder| Ok(rustix::fs::fstat(&folder)?));
    stat.map(|stat| stat.st_dev).map_err(|source| ScanError::Io { path: root.at(""), source })
}

/// Whether a file system is known to update a folder's times with every change of its names.
pub(crate) fn renews_times(root: &Root) -> bool {
    const KNOWN: [u64; 8] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0x0102_1994, // tmpfs
        0x794c_7630, // overlayfs
        0xf2f5_2010, // f2fs
        0x2fc1_2fc1, // zfs
        0xca45_1a4e, // bcachefs
    ];
    let kind = root.folder("").ok().and_then(|folder| rustix::fs::fstatfs(&folder).ok());
    kind.is_some_and(|kind| u64::try_from(kind.f_type).is_ok_and(|kind| KNOWN.contains(&kind)))
}

/// An ignore file's text; one that is a link or not a file has none, as in git.
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

/// The entry under a name.
pub(crate) enum Thing {
    File,
    Folder,
    Link(Box<str>),
}

pub(crate) fn what_is(
    folder: impl std::os::fd::AsFd,
    name: &[u8],
    path: &str,
    stat: &Stat,
) -> io::Result<Result<Thing, RefusalReason>> {
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & SET_ID_BITS != 0 => Err(RefusalReason::SetId),
        FileType::RegularFile => Ok(Thing::File),
        FileType::Directory => Ok(Thing::Folder),
        FileType::Symlink => return link_in(folder, name, path),
        FileType::Fifo => Err(RefusalReason::Special("FIFO")),
        FileType::Socket => Err(RefusalReason::Special("socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(RefusalReason::Special("device node")),
        FileType::Unknown => Err(RefusalReason::Special("file of unknown type")),
    })
}

pub(crate) fn link_in(
    folder: impl std::os::fd::AsFd,
    name: &[u8],
    path: &str,
) -> io::Result<Result<Thing, RefusalReason>> {
    let target = match rustix::fs::readlinkat(folder, std::ffi::OsStr::from_bytes(name), Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT | Errno::INVAL) => return Ok(Ok(Thing::Folder)),
        Err(errno) => return Err(errno.into()),
    };
    Ok(match target_text(&target) {
        None => Err(RefusalReason::NotUtf8),
        Some(target) if stays_inside(path, &target) => Ok(Thing::Link(target)),
        Some(target) => Err(RefusalReason::OutsideLink(target.into())),
    })
}
