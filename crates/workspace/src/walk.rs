//! The walk through a workspace's folders (R26). Owns which names count, what is refused, and what is reused from the
//! last scan: a folder whose names and files are all unchanged is reused as a whole, at the cost of a stat each.
//! Follows no link, and reads no ignored file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crealeph_contracts::digest::Blake3;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use crate::cache::{Cache, Identity};
use crate::content;
use crate::deadline::Deadline;
use crate::git::Tracked;
use crate::node::TreeNode;
use crate::path::{GIT, OUTSIDE_NAMES, TreePath, join};
use crate::rooted::{Root, is_gone};
use crate::rules::{FolderRules, IGNORE_FILE, IgnoreFiles, IgnoreVerdict, Scope};
use crate::scan::{
    MAX_REFUSALS, OWNER_EXECUTES, Refusal, RefusalReason, ScanError, ScanLimits, Thing, link_in,
    read_ignore_file, what_is,
};
use crate::tree::{Entry, Folder, Listed, What};

/// How often a file is read again if it changes while it is read.
const READ_TRIES: usize = 3;
/// How many files of one folder are read before another core takes its part.
const FILES_AT_ONCE: usize = 512;

/// Reserved for each thread, not used up: a thread that waits for a folder below works on others meanwhile, on top.
const STACK_BYTES: usize = 64 << 20;
/// The threads that walk; the deepest workspace takes more stack than threads have by default.
static POOL: LazyLock<Result<ThreadPool, ThreadPoolBuildError>> =
    LazyLock::new(|| ThreadPoolBuilder::new().stack_size(STACK_BYTES).build());

pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Root,
    pub(crate) limits: &'a ScanLimits,
    pub(crate) ignore_files: &'a IgnoreFiles,
    pub(crate) cache: Option<&'a Cache>,
    /// The device of the root; entries on others, whose clocks are not this one's, are not cached.
    pub(crate) device: u64,
    /// Whether this file system updates a folder's times with every change of its names.
    pub(crate) trusts_names: bool,
    pub(crate) deadline: Deadline<'a>,
    pub(crate) found: WalkFindings,
}

/// What was found on the way, besides the folders themselves.
#[derive(Default)]
pub(crate) struct WalkFindings {
    pub(crate) files: AtomicUsize,
    pub(crate) read_files: AtomicUsize,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) refusals: Mutex<Vec<Refusal>>,
    pub(crate) rules: Mutex<BTreeMap<String, FolderRules>>,
}

impl WalkFindings {
    fn refuse(&self, path: &[u8], reason: RefusalReason) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < MAX_REFUSALS {
            refusals.push(Refusal { path: String::from_utf8_lossy(path).into_owned(), reason });
        }
    }
}

/// A folder on the way.
struct VisitedFolder<'p> {
    path: &'p str,
    above: &'p Scope,
    depth: usize,
    known: Option<&'p Arc<Folder>>,
    opened: OwnedFd,
    stat: Stat,
}

/// What a folder contains, each with its path.
struct Sorted<'n> {
    nodes: Vec<(&'n str, String, Stat)>,
    /// Folders, with what counts in them.
    below: Vec<(&'n str, String, Scope)>,
    has_ignored: bool,
}

impl Walk<'_> {
    /// Reads the whole workspace.
    pub(crate) fn run(&self, outermost: &Scope) -> Result<Arc<Folder>, ScanError> {
        let known = self.cache.map(Cache::root);
        let walk = || Ok(self.folder("", outermost, 0, known)?.unwrap_or_default());
        match &*POOL {
            Ok(pool) => pool.install(walk),
            // Fewer threads, or none, are available: as deep as the existing stacks allow.
            Err(_) => walk(),
        }
    }

    /// Reads a folder; those below it are read in parallel, each opened on its own, so few are open at once. `None` if
    /// the folder is gone.
    fn folder(
        &self,
        path: &str,
        above: &Scope,
        depth: usize,
        known: Option<&Arc<Folder>>,
    ) -> Result<Option<Arc<Folder>>, ScanError> {
        let failed = |source| self.failed(path, source);
        if depth > self.limits.max_depth {
            return Err(self.too_much(path, "folders within folders", self.limits.max_depth, "max_depth"));
        }
        self.deadline.check().map_err(failed)?;
        let opened = match self.root.folder(path) {
            Ok(opened) => opened,
            Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let stat = rustix::fs::fstat(&opened).map_err(|errno| failed(errno.into()))?;
        let place = VisitedFolder { path, above, depth, known, opened, stat };
        match self.as_known(&place)? {
            Some((known, scope)) => self.taken_over(place, &known, &scope).map(Some),
            None => self.listed(place).map(Some),
        }
    }

    /// The folder in the cache and the rules in it, if it still has the same names, all of them still count, and
    /// every file in it is unchanged.
    fn as_known(&self, place: &VisitedFolder<'_>) -> Result<Option<(Arc<Folder>, Scope)>, ScanError> {
        let (Some(cache), Some(known)) = (self.cache, place.known) else { return Ok(None) };
        let now = Identity::of(&place.stat);
        let is_here = place.stat.st_dev == self.device;
        let is_same = |listed: &&Listed| is_here && cache.believes(&now, Some(&listed.identity));
        let Some(listed) = known.listed().filter(is_same) else { return Ok(None) };
        let scope = self.enter(place, false, known.get(IGNORE_FILE).is_some())?;
        if scope.is_only_tracked() || scope.rules() != listed.rules {
            return Ok(None);
        }
        let is_unchanged = |entry: &Entry| match &entry.what {
            What::Folder(_) => true,
            What::TreeNode(_, then) => self
                .stat(&place.opened, &entry.name)
                .is_some_and(|stat| cache.believes(&Identity::of(&stat), then.as_ref())),
        };
        let entries = known.entries().par_iter().with_min_len(FILES_AT_ONCE);
        Ok(entries.all(is_unchanged).then(|| (Arc::clone(known), scope)))
    }

    /// The stat of a file on the workspace's own device.
    fn stat(&self, folder: &OwnedFd, name: &str) -> Option<Stat> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (stat.st_dev == self.device).then_some(stat)
    }

    /// A folder whose own names and files are as they were.
    fn taken_over(
        &self,
        place: VisitedFolder<'_>,
        known: &Arc<Folder>,
        scope: &Scope,
    ) -> Result<Arc<Folder>, ScanError> {
        let VisitedFolder { path, depth, opened, .. } = place;
        drop(opened);
        let folders: Vec<(&str, &Arc<Folder>)> =
            known.entries().iter().filter_map(|entry| Some((&*entry.name, entry.what.folder()?))).collect();
        self.count(path, known.entries().len() - folders.len())?;
        let scope = scope.below(IgnoreVerdict::Counts);
        let below: Vec<Option<Arc<Folder>>> = folders
            .par_iter()
            .map(|(name, known)| self.folder(&join(path, name), &scope, depth + 1, Some(known)))
            .collect::<Result<_, _>>()?;
        let is_same = |((_, then), now): (&(&str, &Arc<Folder>), &Option<Arc<Folder>>)| {
            now.as_ref().is_some_and(|now| Arc::ptr_eq(then, now))
        };
        if folders.iter().zip(&below).all(is_same) {
            return Ok(Arc::clone(known));
        }
        let mut below = below.into_iter();
        let entries = known.entries().iter().filter_map(|entry| match &entry.what {
            What::TreeNode(..) => Some(entry.clone()),
            What::Folder(_) => {
                Some(Entry { name: entry.name.clone(), what: What::Folder(below.next().flatten()?) })
            }
        });
        Ok(Arc::new(Folder::new(entries.collect(), known.listed().copied())))
    }

    /// A folder whose names are read.
    fn listed(&self, place: VisitedFolder<'_>) -> Result<Arc<Folder>, ScanError> {
        let names = names(&place.opened).map_err(|source| self.failed(place.path, source))?;
        let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted.as_bytes());
        let has_repository = place.depth > 0 && has(GIT);
        let scope = self.enter(&place, has_repository, has(IGNORE_FILE))?;
        let Sorted { nodes, below, has_ignored } = self.sorted(&place, &scope, &names)?;
        self.count(place.path, nodes.len())?;
        let read = nodes.into_par_iter().map(|(name, path, stat)| {
            let what = self.node(&place, name, &path, &stat)?;
            Ok(what.map(|what| Entry { name: name.into(), what }))
        });
        let mut entries: Vec<Option<Entry>> = read.collect::<Result<_, ScanError>>()?;
        let VisitedFolder { depth, known, opened, stat, .. } = place;
        drop(opened);
        let below = below.into_par_iter().map(|(name, path, scope)| {
            let known = known.and_then(|known| known.get(name)?.folder());
            let folder = self.folder(&path, &scope, depth + 1, known)?;
            Ok(folder.map(|folder| Entry { name: name.into(), what: What::Folder(folder) }))
        });
        entries.extend(below.collect::<Result<Vec<_>, ScanError>>()?);
        let mut entries: Vec<Entry> = entries.into_iter().flatten().collect();
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let do_all_count = !scope.is_only_tracked() && !has_repository && !has_ignored;
        let is_remembered = do_all_count && self.trusts_names && stat.st_dev == self.device;
        let listed = is_remembered.then(|| Listed { identity: Identity::of(&stat), rules: scope.rules() });
        match known.filter(|known| self.is_as_known(known, &entries, listed.as_ref())) {
            Some(known) => Ok(Arc::clone(known)),
            None => Ok(Arc::new(Folder::new(entries, listed))),
        }
    }

    /// Sorts what a folder contains into folders and everything else, without what is ignored or cannot be in a state.
    fn sorted<'n>(
        &self,
        place: &VisitedFolder<'_>,
        scope: &Scope,
        names: &'n [(Vec<u8>, FileType)],
    ) -> Result<Sorted<'n>, ScanError> {
        let mut sorted = Sorted { nodes: Vec::new(), below: Vec::new(), has_ignored: false };
        for (name, kind) in names {
            if OUTSIDE_NAMES.iter().any(|outside| outside.as_bytes() == name.as_slice()) {
                continue;
            }
            let path = match place.path.is_empty() {
                true => name.clone(),
                false => [place.path.as_bytes(), name.as_slice()].join(&b'/'),
            };
            let stat = match kind {
                FileType::Directory => None,
                _ => match rustix::fs::statat(&place.opened, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => Some(stat),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(self.failed(place.path, errno.into())),
                },
            };
            let kind = stat.as_ref().map_or(*kind, |stat| FileType::from_raw_mode(stat.st_mode));
            let is_ignored = scope.ignores(&path, kind == FileType::Directory);
            sorted.has_ignored |= is_ignored;
            let verdict = scope.verdict(is_ignored, &path, kind == FileType::Directory);
            if verdict == IgnoreVerdict::Ignored {
                continue;
            }
            let (Ok(text), Ok(name)) = (std::str::from_utf8(&path), std::str::from_utf8(name)) else {
                self.found.refuse(&path, RefusalReason::NotUtf8);
                continue;
            };
            match stat.filter(|_| kind != FileType::Directory) {
                None => sorted.below.push((name, text.to_owned(), scope.below(verdict))),
                Some(stat) => sorted.nodes.push((name, text.to_owned(), stat)),
            }
        }
        Ok(sorted)
    }

    fn failed(&self, path: &str, source: io::Error) -> ScanError {
        ScanError::Io { path: self.root.at(path), source }
    }

    /// Whether a folder whose names were read matches the cache, so that there is nothing more to cache.
    fn is_as_known(&self, known: &Folder, entries: &[Entry], listed: Option<&Listed>) -> bool {
        let Some(cache) = self.cache else { return false };
        let is_same = |(then, now): (&Entry, &Entry)| {
            let is_same = match (&then.what, &now.what) {
                (What::Folder(then), What::Folder(now)) => Arc::ptr_eq(then, now),
                (What::TreeNode(_, then), What::TreeNode(_, Some(now))) => cache.believes(now, then.as_ref()),
                _ => false,
            };
            is_same && then.name == now.name
        };
        let is_listed_alike = match (known.listed(), listed) {
            (None, None) => true,
            (Some(then), Some(now)) => {
                then.rules == now.rules && cache.believes(&now.identity, Some(&then.identity))
            }
            _ => false,
        };
        let known = known.entries();
        is_listed_alike && known.len() == entries.len() && known.iter().zip(entries).all(is_same)
    }

    /// A file or link, from the cache or read; `None` if it is gone or was refused.
    fn node(
        &self,
        place: &VisitedFolder<'_>,
        name: &str,
        path: &str,
        stat: &Stat,
    ) -> Result<Option<What>, ScanError> {
        let failed = |source| ScanError::Io { path: self.root.at(path), source };
        let now = Identity::of(stat);
        let is_here = stat.st_dev == self.device;
        if let (Some(cache), Some(What::TreeNode(node, then))) =
            (self.cache, place.known.and_then(|known| known.get(name)))
            && is_here
            && cache.believes(&now, then.as_ref())
        {
            return Ok(Some(What::TreeNode(node.clone(), Some(now))));
        }
        let refuse = |reason| {
            self.found.refuse(path.as_bytes(), reason);
            Ok(None)
        };
        if let Err(fault) = TreePath::parse(path) {
            return refuse(RefusalReason::Path(fault));
        }
        let thing = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => link_in(&place.opened, name.as_bytes(), path),
            _ => what_is(&place.opened, name.as_bytes(), path, stat),
        };
        match thing.map_err(failed)? {
            Err(reason) => refuse(reason),
            Ok(Thing::Link(target)) => {
                Ok(Some(What::TreeNode(TreeNode::Symlink { target }, is_here.then_some(now))))
            }
            Ok(Thing::File) => self.read(path, is_here),
            // It became a folder meanwhile.
            Ok(Thing::Folder) => Ok(None),
        }
    }

    fn read(&self, path: &str, is_here: bool) -> Result<Option<What>, ScanError> {
        let failed = |source| ScanError::Io { path: self.root.at(path), source };
        let mut file = match self.root.file(path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(None);
        }
        let (mut node, mut identity) = (None, None);
        // If it keeps changing, the last content read was its content at some time; it is just not cached.
        for _ in 0..READ_TRIES {
            let (before, read, after) = read_whole(&mut file, self.deadline).map_err(failed)?;
            node = Some(read);
            if before == after {
                identity = Some(after);
                break;
            }
        }
        if let Some(TreeNode::File { size_bytes, .. }) = &node {
            self.found.read_files.fetch_add(1, Ordering::Relaxed);
            self.found.read_bytes.fetch_add(*size_bytes, Ordering::Relaxed);
        }
        Ok(node.map(|node| What::TreeNode(node, identity.filter(|_| is_here))))
    }

    /// The rules inside a folder: a nested repository has only its own, an ignore file adds to those above.
    fn enter(
        &self,
        place: &VisitedFolder<'_>,
        has_repository: bool,
        has_rules: bool,
    ) -> Result<Scope, ScanError> {
        let VisitedFolder { path, above, .. } = place;
        let mut rules = FolderRules::default();
        let mut scope = Scope::clone(above);
        let may_be_entered = !above.is_only_tracked() || above.is_submodule(path);
        if has_repository && may_be_entered {
            rules.repository = Tracked::in_folder(&self.root.at(path), path)?.map(Arc::new);
            if let Some(tracked) = &rules.repository {
                scope = above.repository(Arc::clone(tracked));
            }
        }
        rules.text = match self.ignore_files.text(path) {
            Some(text) => text,
            None if has_rules && !scope.is_only_tracked() => {
                let max_bytes = self.limits.max_ignore_file_bytes;
                read_ignore_file(self.root, &join(path, IGNORE_FILE), max_bytes)?
            }
            None => None,
        };
        if let Some(text) = &rules.text {
            scope = scope.with_rules(text, path);
        }
        let mut all = self.found.rules.lock().unwrap_or_else(PoisonError::into_inner);
        match rules.text.is_some() || rules.repository.is_some() {
            true => drop(all.insert((*path).to_owned(), rules)),
            // A folder that changed since it was found in the cache is entered twice.
            false => drop(all.remove(*path)),
        }
        Ok(scope)
    }

    fn count(&self, path: &str, files: usize) -> Result<(), ScanError> {
        match self.found.files.fetch_add(files, Ordering::Relaxed) + files > self.limits.max_files {
            true => Err(self.too_much(path, "files", self.limits.max_files, "max_files")),
            false => Ok(()),
        }
    }

    fn too_much(&self, path: &str, what: &'static str, limit: usize, setting: &'static str) -> ScanError {
        let path = if path.is_empty() { "." } else { path }.to_owned();
        ScanError::TooMuch { path, what, limit: limit as u64, setting }
    }
}

fn names(folder: &impl AsFd) -> io::Result<Vec<(Vec<u8>, FileType)>> {
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

/// A file's content with its stat before and after the reading.
pub(crate) fn read_whole(
    file: &mut File,
    deadline: Deadline<'_>,
) -> io::Result<(Identity, TreeNode, Identity)> {
    let before = rustix::fs::fstat(&*file)?;
    io::Seek::rewind(file)?;
    let (digest, read_bytes) = content::digest_until(file, Identity::of(&before).size_bytes, deadline)?;
    let after = rustix::fs::fstat(&*file)?;
    Ok((Identity::of(&before), file_node(digest, &after, read_bytes), Identity::of(&after)))
}

fn file_node(digest: Blake3, stat: &Stat, size_bytes: u64) -> TreeNode {
    TreeNode::File { digest, size_bytes, executable: stat.st_mode & OWNER_EXECUTES != 0 }
}
