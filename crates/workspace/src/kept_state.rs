//! States that are kept, to be restored elsewhere. Owns the manifest's form and the restoring; refuses a manifest that does not
//! match its name, and a target that is not empty.
//!
//! A manifest is `crealeph-state-v1` and a line feed, then for each path, sorted by its bytes,
//! `<kind> <digest> <size> <path> NUL`, kinds and digests as in the state hash; for a link its target and a NUL follow.
//! It needs no checksum: the hash of the state in it must be its name. A state that differs little from one that is
//! already kept is written as the difference: `crealeph-state-difference-v1`, a line feed, the other state's hash, a line
//! feed, then the lines of new and changed paths, and `gone <path> NUL` for each removed path. `withheld <path> NUL` after the
//! line of a file says that its content is not kept: it was hidden from the agent whose run the state was kept for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::{Blake3, GitHash};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rustix::fs::{Mode, OFlags};

use crate::change::{Change, changes_between};
use crate::control::{Control, ControlError, failed, sync_folder};
use crate::node::TreeNode;
use crate::path::TreePath;
use crate::rooted::{Root, make_folders};
use crate::staged::Added;
use crate::state::{State, StateHash};
use crate::store::{Source, Store, StoreError};
use crate::workspace::Workspace;

const HEADER: &str = "crealeph-state-v1\n";
const DIFFERENCE_HEADER: &str = "crealeph-state-difference-v1\n";
/// After this many differences a state is written whole again.
const MAX_DIFFERENCES: usize = 64;
/// More than the manifest of the largest workspace.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// The paths that are hidden from the agent that a state is kept for.
#[derive(Clone, Copy)]
pub struct Hidden<'h> {
    /// Whether a path is hidden.
    pub covers: &'h dyn Fn(&str) -> bool,
    /// The hidden files and folders of the workspace, if they are known: a state that is already kept is not searched then.
    pub known: Option<&'h [PathBuf]>,
}

impl Hidden<'static> {
    /// Nothing is hidden.
    pub const NOTHING: Self = Hidden { covers: &|_| false, known: Some(&[]) };
}

impl std::fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hidden").field("known", &self.known).finish_non_exhaustive()
    }
}

/// Why a state cannot be kept or restored.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `.crealeph` cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A content was git's, and git has lost it.
    #[error(
        "the content of `{path}` was not copied because git had it as `{}`, and the repository no longer has it; fetch it again, or restore `.git` from a copy", .blob.as_str()
    )]
    LostByGit {
        /// The file.
        path: TreePath,
        /// Git's name of it.
        blob: GitHash,
    },
    /// The state was never kept.
    #[error("the state `{0}` was not kept in this workspace, or was cleaned away; name one that exists")]
    Unknown(StateHash),
    /// The manifest does not match its name.
    #[error("the manifest of the state `{0}` is damaged; restore `.crealeph` from a copy")]
    Damaged(StateHash),
    /// The target of restoring is not empty.
    #[error("`{}` is not an empty folder; name one that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// The target of restoring cannot be written.
    #[error("cannot write `{}`; fix its permissions or free space", .path.display())]
    Place {
        /// What was to be written.
        path: PathBuf,
        /// Why it cannot.
        source: io::Error,
    },
}

impl KeepError {
    /// Names the file whose content git has lost.
    pub(crate) fn of(self, path: &TreePath) -> Self {
        match self {
            KeepError::Store(StoreError::LostByGit { blob, .. }) => {
                KeepError::LostByGit { path: path.clone(), blob }
            }
            other => other,
        }
    }
}

impl Workspace {
    /// The store of contents.
    pub fn store(&self) -> Store<'_> {
        Store::new(&self.control)
    }

    /// Keeps a state of this workspace: every content that is not in the store yet, and the manifest. Durable when this
    /// returns. Returns what was added.
    ///
    /// # Errors
    /// If a file no longer matches the state, or the store cannot be written.
    pub fn keep(&self, state: &State) -> Result<Added, KeepError> {
        self.keep_hiding(state, Hidden::NOTHING)
    }

    /// [`Workspace::keep`], without the contents of the hidden files. A state that is already kept with them is marked, so that
    /// they are neither restored nor exported.
    ///
    /// # Errors
    /// As [`Workspace::keep`].
    pub fn keep_hiding(&self, state: &State, hidden: Hidden<'_>) -> Result<Added, KeepError> {
        if self.is_kept(state) {
            return self.mark_withheld(state, hidden);
        }
        let entries = state.entries();
        let withheld = hidden_of(entries.iter(), hidden);
        self.keep_as(state, entries.iter(), &withheld, || manifest(state, &withheld))
    }

    /// Withholds the hidden files of a state that is already kept.
    fn mark_withheld(&self, state: &State, hidden: Hidden<'_>) -> Result<Added, KeepError> {
        let mut withheld = match hidden.known {
            None => hidden_of(state.entries().iter(), hidden),
            Some(known) => {
                let paths = known.iter().filter_map(|path| path.to_str()).flat_map(|path| {
                    let own = TreePath::parse(path).ok();
                    state.under(path).into_iter().chain(own)
                });
                paths.filter(|path| matches!(state.get(path), Some(TreeNode::File { .. }))).collect()
            }
        };
        if withheld.is_empty() {
            return Ok(Added::default());
        }
        let before = withheld_in(&self.control, state.hash())?;
        if withheld.is_subset(&before) {
            return Ok(Added::default());
        }
        withheld.extend(before);
        self.write_manifest(state.hash(), &manifest(state, &withheld))?;
        Ok(Added::default())
    }

    /// Keeps the state that a change of a kept state leads to, as the difference between the two, so that the cost
    /// depends on the change. Contents that are not in the store yet are taken from the workspace. Files withheld in the state before are
    /// withheld in this one.
    ///
    /// # Errors
    /// If a file no longer matches the state, or the store cannot be written.
    pub fn keep_after(&self, before: &State, after: &State, hidden: Hidden<'_>) -> Result<Added, KeepError> {
        if self.is_kept(after) || self.differences_to_whole(before.hash()) >= MAX_DIFFERENCES {
            return self.keep_hiding(after, hidden);
        }
        let changes = changes_between(before, after);
        let new = || changes.iter().filter_map(|change| Some((&change.path, change.after.as_ref()?)));
        let withheld = hidden_of(new(), hidden);
        self.keep_as(after, new(), &withheld, || difference(before.hash(), &changes, &withheld))
    }

    /// A manifest gets its name only after all its contents have theirs, and loses it before them.
    fn is_kept(&self, state: &State) -> bool {
        self.control.states().join(state.hash().to_string()).exists()
    }

    /// How many differences lead from a kept state to one that is written whole; more than any limit if it is not kept.
    fn differences_to_whole(&self, hash: StateHash) -> usize {
        let mut hash = hash.to_string();
        for count in 0..=MAX_DIFFERENCES {
            let mut start = [0; DIFFERENCE_HEADER.len() + 64];
            let read =
                File::open(self.control.states().join(&hash)).and_then(|mut file| file.read(&mut start));
            let Ok(length) = read else { break };
            let text =
                start.get(..length).and_then(|start| std::str::from_utf8(start).ok()).unwrap_or_default();
            match text.strip_prefix(DIFFERENCE_HEADER) {
                None => return count,
                Some(base) => base.clone_into(&mut hash),
            }
        }
        usize::MAX
    }

    fn keep_as<'n>(
        &self,
        state: &State,
        nodes: impl Iterator<Item = (&'n TreePath, &'n TreeNode)>,
        withheld: &BTreeSet<TreePath>,
        text: impl FnOnce() -> String,
    ) -> Result<Added, KeepError> {
        let store = self.store();
        let mut seen = BTreeSet::new();
        let mut sources = Vec::new();
        for (path, node) in nodes {
            if let TreeNode::File { digest, .. } = node
                && !withheld.contains(path)
                && seen.insert(*digest)
                && !store.has_copy(digest)
            {
                sources.push(Source { root: &self.root, path: path.as_str(), expected: Some(*digest) });
            }
        }
        let blobs = store.blobs_of(&mut sources)?;
        let put = store.put_files(&sources)?;
        self.control.refer(state.hash(), &blobs)?;
        self.write_manifest(state.hash(), &text())?;
        let mut added = Added::default();
        let name = state.hash().to_string();
        added.push(self.control.states().join(&name));
        if !blobs.is_empty() {
            added.push(self.control.references_folder().join(&name));
        }
        put.iter().for_each(|(digest, _)| added.push(store.path(digest)));
        Ok(added)
    }

    /// Writes a manifest, or replaces it by another one of the same state; durable when this returns.
    pub(crate) fn write_manifest(&self, hash: StateHash, text: &str) -> Result<(), KeepError> {
        let (temporary, folder) = (self.control.temporary(), self.control.states());
        let mut file = File::create_new(&temporary).map_err(failed("make", &temporary))?;
        file.write_all(text.as_bytes()).map_err(failed("write", &temporary))?;
        file.sync_all().map_err(failed("sync", &temporary))?;
        let path = folder.join(hash.to_string());
        fs::rename(&temporary, &path).map_err(failed("name", &path))?;
        Ok(sync_folder(&folder)?)
    }

    /// A kept state.
    ///
    /// # Errors
    /// If it was not kept, or its manifest is damaged.
    pub fn kept(&self, hash: StateHash) -> Result<State, KeepError> {
        kept_in(&self.control, hash)
    }

    /// Writes a kept state into a folder that is empty or does not exist. The workspace is not touched.
    ///
    /// # Errors
    /// If the state was not kept whole, or the folder cannot be written.
    pub fn restore(&self, hash: StateHash, into: &Path) -> Result<State, KeepError> {
        let state = self.kept(hash)?;
        let withheld = withheld_in(&self.control, hash)?;
        let mut entries = state.entries();
        entries.retain(|path, _| !withheld.contains(path));
        self.lay_out(&entries, into)?;
        Ok(state)
    }

    /// Writes files and links, whose contents are in the store, into a folder that is empty or does not exist.
    ///
    /// # Errors
    /// If a content is not in the store, or the folder cannot be written.
    pub fn lay_out<'n>(
        &self,
        nodes: impl IntoIterator<Item = (&'n TreePath, &'n TreeNode)>,
        into: &Path,
    ) -> Result<(), KeepError> {
        lay_out_from(&self.control, nodes, into)
    }
}

/// A manifest's parts.
pub(crate) struct Manifest<'t> {
    /// The state that it is the difference from; `None` if it is whole.
    pub(crate) base: Option<StateHash>,
    lines: &'t str,
}

impl<'t> Manifest<'t> {
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        if let Some(lines) = text.strip_prefix(HEADER) {
            return Some(Manifest { base: None, lines });
        }
        let (base, lines) = text.strip_prefix(DIFFERENCE_HEADER)?.split_once('\n')?;
        Some(Manifest { base: Some(StateHash::from_digest(Blake3::parse(base)?)), lines })
    }

    /// The contents of the files that it names, except those that it withholds.
    pub(crate) fn contents(&self) -> Option<BTreeSet<Blake3>> {
        let mut contents: BTreeMap<TreePath, Blake3> = BTreeMap::new();
        each_line(self.lines, |line| {
            match line {
                Line::There(path, TreeNode::File { digest, .. }) => drop(contents.insert(path, digest)),
                Line::Withheld(path) => drop(contents.remove(&path)),
                Line::There(..) | Line::Gone(_) => {}
            }
            Some(())
        })?;
        Some(contents.into_values().collect())
    }
}

/// A kept state in a folder of states.
pub(crate) fn kept_in(control: &Control, hash: StateHash) -> Result<State, KeepError> {
    let read = read_kept(control, hash)?;
    State::new(read.entries).ok().filter(|state| state.hash() == hash).ok_or(KeepError::Damaged(hash))
}

/// The files of a kept state whose contents are not kept.
pub(crate) fn withheld_in(control: &Control, hash: StateHash) -> Result<BTreeSet<TreePath>, KeepError> {
    Ok(read_kept(control, hash)?.withheld)
}

/// The content of manifests.
#[derive(Default)]
struct Listed {
    entries: BTreeMap<TreePath, TreeNode>,
    withheld: BTreeSet<TreePath>,
}

fn read_kept(control: &Control, hash: StateHash) -> Result<Listed, KeepError> {
    let damaged = || KeepError::Damaged(hash);
    let mut differences: Vec<String> = Vec::new();
    let mut at = hash;
    let mut listed = loop {
        let text = read_manifest(control, at)?.ok_or(KeepError::Unknown(at))?;
        let manifest = Manifest::parse(&text).ok_or_else(damaged)?;
        let Some(base) = manifest.base else {
            break apply_lines(manifest.lines, Listed::default()).ok_or_else(damaged)?;
        };
        at = base;
        differences.push(manifest.lines.to_owned());
        if differences.len() > MAX_DIFFERENCES + 1 {
            return Err(damaged());
        }
    };
    for lines in differences.iter().rev() {
        listed = apply_lines(lines, listed).ok_or_else(damaged)?;
    }
    Ok(listed)
}

pub(crate) fn read_manifest(control: &Control, hash: StateHash) -> Result<Option<String>, KeepError> {
    let path = control.states().join(hash.to_string());
    let size_bytes = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", &path)(error).into()),
    };
    if size_bytes > MAX_MANIFEST_BYTES {
        return Err(KeepError::Damaged(hash));
    }
    let bytes = fs::read(&path).map_err(failed("read", &path))?;
    String::from_utf8(bytes).map(Some).map_err(|_| KeepError::Damaged(hash))
}

/// Writes files and links, whose contents are in a store, into a folder that is empty or does not exist.
pub(crate) fn lay_out_from<'n>(
    control: &Control,
    nodes: impl IntoIterator<Item = (&'n TreePath, &'n TreeNode)>,
    into: &Path,
) -> Result<(), KeepError> {
    let unwritable = |path: &Path| {
        let path = path.to_owned();
        move |source| KeepError::Place { path, source }
    };
    fs::create_dir_all(into).map_err(unwritable(into))?;
    if fs::read_dir(into).map_err(unwritable(into))?.next().is_some() {
        return Err(KeepError::NotEmpty(into.to_owned()));
    }
    let root = Root::open(into).map_err(unwritable(into))?;
    let entries: Vec<(&TreePath, &TreeNode)> = nodes.into_iter().collect();
    let folders: BTreeSet<&str> = entries.iter().map(|(path, _)| path.split().0).collect();
    for folder in folders {
        make_folders(&root, folder).map_err(unwritable(&root.at(folder)))?;
    }
    entries.par_iter().try_for_each(|(path, node)| {
        let at = root.at(path.as_str());
        match node {
            TreeNode::File { digest, executable, .. } => {
                let mode = Mode::from_raw_mode(if *executable { 0o777 } else { 0o666 });
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
                let file = root.open_beneath(path.as_str(), flags, mode).map_err(unwritable(&at))?;
                let copied = Store::new(control).copy_to(digest, &File::from(file), &at);
                copied.map_err(|error| KeepError::from(error).of(path))
            }
            TreeNode::Symlink { target } => {
                let (folder, name) = path.split();
                let folder = root.folder(folder).map_err(unwritable(&at))?;
                let made = rustix::fs::symlinkat(&**target, &folder, name);
                made.map_err(|errno| unwritable(&at)(errno.into()))
            }
        }
    })
}

/// The manifest of a state, whole.
pub(crate) fn manifest(state: &State, withheld: &BTreeSet<TreePath>) -> String {
    let mut text = HEADER.to_owned();
    state.entries().iter().for_each(|(path, node)| push_line(&mut text, path, node, withheld));
    text
}

fn difference(base: StateHash, changes: &[Change], withheld: &BTreeSet<TreePath>) -> String {
    let mut text = format!("{DIFFERENCE_HEADER}{base}\n");
    for change in changes {
        match &change.after {
            Some(node) => push_line(&mut text, &change.path, node, withheld),
            None => text.push_str(&format!("gone {}\0", change.path)),
        }
    }
    text
}

/// The files among these whose contents are not to be kept.
fn hidden_of<'n>(
    nodes: impl Iterator<Item = (&'n TreePath, &'n TreeNode)>,
    hidden: Hidden<'_>,
) -> BTreeSet<TreePath> {
    let files = nodes.filter(|(_, node)| matches!(node, TreeNode::File { .. }));
    files.filter(|(path, _)| (hidden.covers)(path.as_str())).map(|(path, _)| path.clone()).collect()
}

fn push_line(text: &mut String, path: &TreePath, node: &TreeNode, withheld: &BTreeSet<TreePath>) {
    let (size_bytes, target) = match node {
        TreeNode::File { size_bytes, .. } => (*size_bytes, None),
        TreeNode::Symlink { target } => (target.len() as u64, Some(target)),
    };
    text.push_str(&format!("{} {} {size_bytes} {path}\0", node.word(), node.content_digest()));
    if let Some(target) = target {
        text.push_str(target);
        text.push('\0');
    }
    if withheld.contains(path) {
        text.push_str(&format!("withheld {path}\0"));
    }
}

/// Applies the lines of a manifest to the entries so far.
fn apply_lines(lines: &str, mut listed: Listed) -> Option<Listed> {
    each_line(lines, |line| match line {
        Line::There(path, node) => {
            listed.withheld.remove(&path);
            listed.entries.insert(path, node);
            Some(())
        }
        Line::Gone(path) => {
            listed.withheld.remove(&path);
            listed.entries.remove(&path).map(drop)
        }
        Line::Withheld(path) => {
            listed.entries.contains_key(&path).then_some(())?;
            listed.withheld.insert(path);
            Some(())
        }
    })?;
    Some(listed)
}

/// One line of a manifest.
enum Line {
    There(TreePath, TreeNode),
    Gone(TreePath),
    Withheld(TreePath),
}

/// Passes on each line of a manifest.
fn each_line(mut rest: &str, mut take: impl FnMut(Line) -> Option<()>) -> Option<()> {
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\0')?;
        rest = after;
        let (word, line) = line.split_once(' ')?;
        match word {
            "gone" => {
                take(Line::Gone(TreePath::parse(line).ok()?))?;
                continue;
            }
            "withheld" => {
                take(Line::Withheld(TreePath::parse(line).ok()?))?;
                continue;
            }
            _ => {}
        }
        let mut parts = line.splitn(3, ' ');
        let digest = Blake3::parse(parts.next()?)?;
        let (size_bytes, path) = (parts.next()?.parse().ok()?, TreePath::parse(parts.next()?).ok()?);
        let node = match word {
            "file" => TreeNode::File { digest, size_bytes, executable: false },
            "exec" => TreeNode::File { digest, size_bytes, executable: true },
            "link" => {
                let (target, after) = rest.split_once('\0')?;
                rest = after;
                TreeNode::Symlink { target: target.into() }
            }
            _ => return None,
        };
        take(Line::There(path, node))?;
    }
    Some(())
}
