//! States and contents read in place: in a workspace's `.crealeph`, or in an export of a run. Owns
//! replaying one state into another in a scratch folder; writes nothing into the archive, and makes exports that hold
//! exactly what the named states need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::change::changes_between;
use crate::control::Control;
use crate::deadline::Deadline;
use crate::git::objects::GitObjects;
use crate::kept_state::{KeepError, kept_in, lay_out_from, manifest, withheld_in};
use crate::node::TreeNode;
use crate::path::{OUTSIDE_NAMES, TreePath, join};
use crate::rooted::Root;
use crate::rules::IgnoreFiles;
use crate::scan::{Refusal, RefusalReason, ScanError, ScanLimits, WorkspaceSnapshot, scan, unread_at};
use crate::state::{State, StateHash};
use crate::store::Store;

/// A folder with `states` and `objects` in it.
#[derive(Debug)]
pub struct Archive {
    control: Control,
}

impl Archive {
    /// The archive in a folder; `None` if the folder has no states.
    pub fn open(folder: &Path) -> Option<Self> {
        let control = Control::at(folder);
        (control.states().is_dir() && control.objects().is_dir()).then_some(Archive { control })
    }

    /// The same archive; contents that git has are read from git.
    #[must_use]
    pub fn with_git(mut self, git: GitObjects) -> Self {
        self.control.git = Some(git);
        self
    }

    /// A kept state.
    ///
    /// # Errors
    /// If it was not kept, or its manifest is damaged.
    pub fn kept(&self, hash: StateHash) -> Result<State, KeepError> {
        kept_in(&self.control, hash)
    }

    /// The files of a kept state whose contents are not kept, because they were hidden from the agent.
    ///
    /// # Errors
    /// If the state was not kept, or its manifest is damaged.
    pub fn withheld(&self, hash: StateHash) -> Result<BTreeSet<TreePath>, KeepError> {
        withheld_in(&self.control, hash)
    }

    /// Writes a kept state, without its withheld files, into a folder that is empty or does not exist.
    ///
    /// # Errors
    /// If the state was not kept whole, or the folder cannot be written.
    pub fn restore(&self, state: &State, into: &Path) -> Result<(), KeepError> {
        let withheld = self.withheld(state.hash())?;
        let mut entries = state.entries();
        entries.retain(|path, _| !withheld.contains(path));
        lay_out_from(&self.control, &entries, into)
    }

    /// Turns a folder that holds one state into another kept state, file by file.
    ///
    /// # Errors
    /// If a content is missing, or the folder cannot be written.
    pub fn advance(&self, from: &State, to: &State, folder: &Path) -> Result<(), KeepError> {
        let changes = changes_between(from, to);
        let withheld = self.withheld(from.hash())?;
        for change in changes.iter().filter(|change| change.before.is_some()) {
            let path = folder.join(change.path.as_str());
            match fs::remove_file(&path) {
                // An earlier run that did not change it has it withheld in this state, so it was not restored.
                Err(error) if error.kind() == io::ErrorKind::NotFound && withheld.contains(&change.path) => {}
                removed => removed.map_err(|source| KeepError::Place { path, source })?,
            }
        }
        for change in &changes {
            let Some(node) = &change.after else { continue };
            let path = folder.join(change.path.as_str());
            remove_empty_folders(&path);
            if let Some(parent) = path.parent() {
                let failed = |source| KeepError::Place { path: parent.to_owned(), source };
                fs::create_dir_all(parent).map_err(failed)?;
            }
            self.write(&path, node).map_err(|error| error.of(&change.path))?;
        }
        Ok(())
    }

    fn write(&self, path: &Path, node: &TreeNode) -> Result<(), KeepError> {
        let failed = |source| KeepError::Place { path: path.to_owned(), source };
        match node {
            TreeNode::Symlink { target } => std::os::unix::fs::symlink(&**target, path).map_err(failed),
            TreeNode::File { digest, executable, .. } => {
                let file =
                    File::options().read(true).write(true).create_new(true).open(path).map_err(failed)?;
                Store::new(&self.control).copy_to(digest, &file, path)?;
                let mode = fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 });
                file.set_permissions(mode).map_err(failed)
            }
        }
    }

    /// Writes some states, each whole, and every content they need into a folder that does not exist yet.
    ///
    /// # Errors
    /// If a state was not kept whole, or the folder cannot be written.
    pub fn export(&self, states: &[StateHash], into: &Path) -> Result<(), KeepError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| KeepError::Place { path, source }
        };
        let target = Control::at(into);
        for folder in [target.states(), target.objects()] {
            fs::create_dir_all(&folder).map_err(failed(&folder))?;
        }
        let (from, to) = (Store::new(&self.control), Store::new(&target));
        let mut done = BTreeSet::new();
        for hash in states {
            let state = self.kept(*hash)?;
            let withheld = self.withheld(*hash)?;
            for (at, node) in &state.entries() {
                let TreeNode::File { digest, .. } = node else { continue };
                if withheld.contains(at) || !done.insert(*digest) {
                    continue;
                }
                let path = to.path(digest);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).map_err(failed(parent))?;
                }
                let file = File::options().read(true).write(true).create_new(true).open(&path);
                let copied = from.copy_to(digest, &file.map_err(failed(&path))?, &path);
                copied.map_err(|error| KeepError::from(error).of(at))?;
            }
            let path = target.states().join(hash.to_string());
            fs::write(&path, manifest(&state, &withheld)).map_err(failed(&path))?;
        }
        Ok(())
    }
}

/// Folders without a file at a path that needs a file.
fn remove_empty_folders(path: &Path) {
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            remove_empty_folders(&entry.path());
        }
        // One that is not empty stays, and the later write there fails with that reason.
        let _ = fs::remove_dir(path);
    }
}

/// The state of a folder in which every possible path counts, whatever rules or repositories it contains.
///
/// # Errors
/// If something cannot be read or cannot be part of a state.
pub fn state_of_everything(folder: &Path) -> Result<State, ScanError> {
    let mut entries = BTreeMap::new();
    everything(&open(folder)?, "", ScanLimits::default().max_depth, &mut entries)?;
    Ok(State::new(entries)?)
}

fn everything(
    root: &Root,
    folder: &str,
    depth_left: usize,
    entries: &mut BTreeMap<TreePath, TreeNode>,
) -> Result<(), ScanError> {
    let failed = |source| ScanError::Io { path: root.at(folder), source };
    for entry in fs::read_dir(root.at(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if OUTSIDE_NAMES.iter().any(|outside| name == *outside) {
            continue;
        }
        let refused = |reason| {
            let path = join(folder, &name.to_string_lossy());
            ScanError::Refused(vec![Refusal { path, reason }])
        };
        let path = join(folder, name.to_str().ok_or_else(|| refused(RefusalReason::NotUtf8))?);
        if entry.file_type().map_err(failed)?.is_dir() {
            let depth_left = depth_left.checked_sub(1).ok_or_else(|| ScanError::TooMuch {
                path: path.clone(),
                what: "folders within folders",
                limit: ScanLimits::default().max_depth as u64,
                setting: "max_depth",
            })?;
            everything(root, &path, depth_left, entries)?;
            continue;
        }
        if let Some(found) = unread_at(root, &path)?.map_err(refused)? {
            let node = found.read(root, &path, Deadline::NEVER)?;
            entries
                .insert(TreePath::parse(&path).map_err(|fault| refused(RefusalReason::Path(fault)))?, node);
        }
    }
    Ok(())
}

/// The state of a folder by the rules of workspaces, without turning it into one: nothing is written there.
///
/// # Errors
/// If something cannot be read or cannot be part of a state.
pub fn state_without_cache(folder: &Path) -> Result<WorkspaceSnapshot, ScanError> {
    scan(&open(folder)?, &ScanLimits::default(), &IgnoreFiles::default(), None, Deadline::NEVER)
}

/// Copies the files of a state from the folder it was read from into an empty one.
///
/// # Errors
/// If a file cannot be read or written.
pub fn copy_state(state: &State, from: &Path, into: &Path) -> Result<(), KeepError> {
    for (path, node) in &state.entries() {
        let (source, target) = (from.join(path.as_str()), into.join(path.as_str()));
        let failed = |error: io::Error| KeepError::Place { path: target.clone(), source: error };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match node {
            TreeNode::Symlink { target: to } => std::os::unix::fs::symlink(&**to, &target).map_err(failed)?,
            TreeNode::File { .. } => drop(fs::copy(&source, &target).map_err(failed)?),
        }
    }
    Ok(())
}

fn open(folder: &Path) -> Result<Root, ScanError> {
    Root::open(folder).map_err(|source| ScanError::Io { path: PathBuf::from(folder), source })
}
