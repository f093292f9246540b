//! Changes that no run may make, however they are published: paths that git (or another version control system, or this program)
//! would read as its own and run programs by, outside the sandbox. Owns the rule; the tables are in `names` and `git_writes`.
//!
//! It refuses names that are, or on another file system become, a guarded folder; links that lead into one; folders that
//! together with existing ones form a bare repository; and, inside a git folder, anything that git does not write in ordinary use.

mod git_writes;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;

use rustix::fs::FileType;

pub(crate) use self::git_writes::is_routine;
pub(crate) use self::names::{file_read_as, folder_read_as};
use crate::change::Change;
use crate::git::GitRepository;
use crate::node::TreeNode;
use crate::path::{CONTROL, GIT, folders_above, join};
use crate::rooted::{Root, stat_in};
use crate::scan::ScanError;
use crate::state::State;
use crate::tree::What;
use crate::workspace::Workspace;

/// How many links one link leads through at most, as in the kernel.
const MAX_LINKS: usize = 40;
/// The entries that make git treat a folder as a bare repository, in lower case: `HEAD` with these, or with `commondir`.
const BARE_FOLDERS: [&str; 2] = ["objects", "refs"];
const BARE_HEAD: &str = "head";
const BARE_COMMON: &str = "commondir";

/// A path that a run must not have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedPath {
    /// Which.
    pub path: String,
    /// Why.
    pub reason: DenialReason,
}

/// Why a path must not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// It is in a git folder, and git does not write it in ordinary use.
    GitFolder,
    /// It is a new git folder, or a new file that points to one.
    NewRepository,
    /// It is, is in, or may be read as this folder or file.
    ReadAs(&'static str),
    /// It is a link that leads into a guarded folder.
    LinkInto(String),
    /// It is a file that git reads, as a link.
    LinkedFile(&'static str),
    /// With it, this folder is a bare repository; empty for the workspace itself.
    BareRepository(String),
    /// Its name has a backslash, which separates names on Windows.
    Backslash,
}

/// The reason of a denial as R28 words it.
impl fmt::Display for DeniedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Denied path: {}", self.path)?;
        match &self.reason {
            DenialReason::GitFolder => Ok(()),
            DenialReason::NewRepository => write!(f, " (git would take it for a repository)"),
            DenialReason::ReadAs(name) if self.path.split('/').any(|part| part == *name) => Ok(()),
            DenialReason::ReadAs(name) => write!(f, " (it may be read as `{name}`)"),
            DenialReason::LinkInto(target) => write!(f, " (the link leads to `{target}`)"),
            DenialReason::LinkedFile(name) => write!(f, " (`{name}` must not be a link)"),
            DenialReason::BareRepository(folder) if folder.is_empty() => {
                write!(f, " (git would take the workspace for a bare repository)")
            }
            DenialReason::BareRepository(folder) => {
                write!(f, " (git would take `{folder}` for a bare repository)")
            }
            DenialReason::Backslash => write!(f, " (a new name must not hold a backslash)"),
        }
    }
}

impl std::error::Error for DeniedPath {}

fn denied(path: &str, reason: DenialReason) -> DeniedPath {
    DeniedPath { path: path.to_owned(), reason }
}

/// The git folders of a workspace that are in it and are not called `.git`, by their paths in it.
pub(crate) fn renamed_git_folders(root: &Root) -> Result<Vec<String>, ScanError> {
    let Some(repository) = GitRepository::around(root.path())? else { return Ok(Vec::new()) };
    let mut folders = BTreeSet::new();
    for folder in [&repository.own, &repository.shared] {
        let folder = match folder.canonicalize() {
            Ok(folder) => folder,
            // A missing folder has nothing to protect.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(source) => return Err(ScanError::Io { path: folder.clone(), source }),
        };
        let inside = folder.strip_prefix(root.path()).ok().and_then(|path| path.to_str());
        folders.extend(
            inside
                .filter(|path| !path.is_empty() && !path.split('/').any(|part| part == GIT))
                .map(str::to_owned),
        );
    }
    Ok(folders.into_iter().collect())
}

/// Whether a path is in one of these folders: the folder, and the path within it.
pub(crate) fn within<'p>(path: &'p str, folders: &[String]) -> Option<(&'p str, &'p str)> {
    folders.iter().find_map(|folder| {
        let rest = path.strip_prefix(folder.as_str())?;
        match rest.strip_prefix('/') {
            Some(inner) => Some((path.get(..folder.len())?, inner)),
            None => rest.is_empty().then_some((path, "")),
        }
    })
}

impl Workspace {
    /// Whether a change may be published at all, judged by the state that it leads to.
    ///
    /// # Errors
    /// The first path that is denied; or something that cannot be read.
    pub fn check(&self, changes: &[Change], after: &State) -> Result<Result<(), DeniedPath>, ScanError> {
        let git_folders = renamed_git_folders(&self.root)?;
        let gone = changes.iter().filter(|change| change.after.is_none()).map(|change| change.path.as_str());
        let check = Check { root: &self.root, after, git_folders, gone: gone.collect() };
        let mut bare = BTreeMap::new();
        for change in changes {
            let verdict = check.path(change).and_then(|()| check.link(change));
            if let Err(denied) = verdict.and_then(|()| check.bare_repository(change, &mut bare)) {
                return Ok(Err(denied));
            }
        }
        Ok(Ok(()))
    }
}

struct Check<'c> {
    root: &'c Root,
    after: &'c State,
    git_folders: Vec<String>,
    /// Paths that the change removes.
    gone: BTreeSet<&'c str>,
}

impl Check<'_> {
    /// The names of a path.
    fn path(&self, change: &Change) -> Result<(), DeniedPath> {
        let path = change.path.as_str();
        if within(path, &self.git_folders).is_some() {
            return Err(denied(path, DenialReason::GitFolder));
        }
        let (is_there, is_new) = (change.after.is_some(), change.before.is_none());
        for name in path.split('/') {
            match folder_read_as(name) {
                // Removing a name that is merely read as `.git` makes nothing worse.
                Some(GIT | CONTROL) if !is_there => {}
                Some(guarded) => return Err(denied(path, DenialReason::ReadAs(guarded))),
                None => {}
            }
            if is_new && is_there && name.contains('\\') {
                return Err(denied(path, DenialReason::Backslash));
            }
        }
        let name = change.path.split().1;
        match (file_read_as(name), &change.after) {
            (Some(file), Some(TreeNode::Symlink { .. })) => Err(denied(path, DenialReason::LinkedFile(file))),
            (Some(file), Some(_)) if file != name => Err(denied(path, DenialReason::ReadAs(file))),
            _ => Ok(()),
        }
    }

    /// The target of a link, through other links.
    fn link(&self, change: &Change) -> Result<(), DeniedPath> {
        let Some(TreeNode::Symlink { target }) = &change.after else { return Ok(()) };
        let (folder, _) = change.path.split();
        let leads = |to: &str| denied(change.path.as_str(), DenialReason::LinkInto(to.to_owned()));
        // What is still to be walked, the next name last.
        let mut ahead: Vec<String> = names_of(target);
        let mut at = folder.to_owned();
        let mut links = 1;
        while let Some(name) = ahead.pop() {
            if name == ".." {
                at = at.rsplit_once('/').map(|(above, _)| above.to_owned()).unwrap_or_default();
                continue;
            }
            let next = join(&at, &name);
            if folder_read_as(&name).is_some() || within(&next, &self.git_folders).is_some() {
                return Err(leads(&next));
            }
            match self.target(&next) {
                // No program follows a link through so many others; each of them is checked by itself.
                Some(_) if links >= MAX_LINKS => return Ok(()),
                // One that leads out of the workspace already existed; its target is not known.
                Some(target) if target.starts_with('/') => return Err(leads(&target)),
                Some(target) => {
                    links += 1;
                    ahead.extend(names_of(&target));
                }
                None => at = next,
            }
        }
        Ok(())
    }

    /// The target of a link after the change; also of one that is not part of the state.
    fn target(&self, path: &str) -> Option<String> {
        match self.after.root().at(path) {
            Some(What::TreeNode(TreeNode::Symlink { target }, _)) => Some(target.to_string()),
            Some(_) => None,
            None if self.gone.contains(path) => None,
            None => {
                let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
                let target = rustix::fs::readlinkat(self.root.folder(folder).ok()?, name, Vec::new()).ok()?;
                Some(target.to_string_lossy().into_owned())
            }
        }
    }

    /// The folders above a changed path that become bare repositories by it.
    fn bare_repository(&self, change: &Change, known: &mut BTreeMap<String, bool>) -> Result<(), DeniedPath> {
        if change.after.is_none() {
            return Ok(());
        }
        let path = change.path.as_str();
        for folder in folders_above(path).chain([""]) {
            let is_bare = match known.get(folder) {
                Some(is_bare) => *is_bare,
                None => {
                    let is_bare = self.is_bare(folder);
                    known.insert(folder.to_owned(), is_bare);
                    is_bare
                }
            };
            if is_bare {
                return Err(denied(path, DenialReason::BareRepository(folder.to_owned())));
            }
        }
        Ok(())
    }

    /// Whether git would treat a folder as a bare repository after the change. Empty and ignored folders count, too.
    fn is_bare(&self, folder: &str) -> bool {
        let listed = match folder {
            "" => Some(self.after.root()),
            folder => match self.after.root().at(folder) {
                Some(What::Folder(folder)) => Some(folder),
                _ => None,
            },
        };
        let names: BTreeSet<String> = listed
            .into_iter()
            .flat_map(|folder| folder.entries())
            .map(|entry| entry.name.to_lowercase())
            .collect();
        let on_disk = |name: &str, is_wanted: fn(FileType) -> bool| {
            if self.gone.contains(join(folder, name).as_str()) {
                return false;
            }
            let Ok(folder) = self.root.folder(folder) else { return false };
            let stat = stat_in(&folder, name).ok().flatten();
            stat.is_some_and(|stat| is_wanted(FileType::from_raw_mode(stat.st_mode)))
        };
        let is_file = |kind| kind != FileType::Directory;
        let is_folder = |kind| matches!(kind, FileType::Directory | FileType::Symlink);
        let has_head = names.contains(BARE_HEAD) || on_disk("HEAD", is_file);
        let has_folders =
            || BARE_FOLDERS.iter().all(|name| names.contains(*name) || on_disk(name, is_folder));
        has_head && (has_folders() || names.contains(BARE_COMMON) || on_disk(BARE_COMMON, is_file))
    }
}

/// The names of a link's target, the first last.
fn names_of(target: &str) -> Vec<String> {
    let names = target.split(['/', '\\']).filter(|name| !matches!(*name, "" | "."));
    names.rev().map(str::to_owned).collect()
}
