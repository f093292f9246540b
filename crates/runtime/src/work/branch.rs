//! Delivery to a git branch: one commit per item, written by a library, so that neither the working tree nor the user's index
//! is touched and no program is started. Owns the commit; refuses to carry changes that are not committed yet, and a commit
//! that is not exactly what was tested.

use std::collections::BTreeMap;
use std::path::Path;

use crealeph_contracts::digest::GitHash;
use crealeph_contracts::text::Shown;
use crealeph_decision::work::Ending;
use crealeph_workspace::{Change, KeepError, State, TreeNode, TreePath, Workspace};
use gix_hash::ObjectId;
use gix_object::tree::EntryKind;
use gix_object::{Commit, Kind, Write as _};
use gix_ref::FullName;

use super::engine::Work;
use super::error::{Stop, WorkError};
use super::git::{self, Converter, Entry, Repository, failed, refused};
use super::journal::HeldBranch;
use super::stage::RunIdentity;

/// The trailer that leads from a commit to its receipt.
pub(super) const TRAILER: &str = "CreAleph-Receipt";
const ITEM_TRAILER: &str = "Work-Item";
/// The largest content that is committed.
const MAX_CONTENT_BYTES: u64 = 1 << 30;
/// How many files of a branch that moved are merged with a held change.
const MAX_MOVED: usize = 10_000;

/// A branch that commits go to.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) name: String,
    repository: Repository,
    reference: FullName,
    /// Where the workspace is in the repository, with a slash at its end if it is not the top.
    prefix: String,
    /// The newest commit, and its tree.
    tip: ObjectId,
    tree: ObjectId,
    /// The commit that it was at when this was opened.
    start: ObjectId,
    /// Whether the branch existed when this started, or does since.
    is_there: bool,
}

/// Whether a branch holds a commit.
pub(super) fn holds(root: &Path, branch: &str, commit: &str) -> Result<bool, WorkError> {
    match Repository::open(root)? {
        Some(repository) => repository.has_in_history(&git::branch_name(branch)?, &git::object_id(commit)?),
        None => Ok(false),
    }
}

impl Branch {
    /// Opens a branch: where it is, or new from the current commit.
    pub(super) fn open(root: &Path, name: &str) -> Result<Self, WorkError> {
        let action = || format!("publish to the branch `{name}`");
        let reference = git::branch_name(name)?;
        let repository = Repository::open(root)?.ok_or_else(|| {
            refused(action(), "the workspace is not in a git repository; publish to the tree")
        })?;
        repository.check_not_checked_out(&reference)?;
        let there = repository.branch_tip(&reference)?;
        if there.is_none()
            && let Some(other) = repository.branch_in_the_way(&reference)?
        {
            return Err(refused(action(), format!("`{other}` exists; name another branch")));
        }
        let tip = match there {
            Some(tip) => tip,
            None => repository
                .head()?
                .ok_or_else(|| refused(action(), "the repository has no commit yet; make the first one"))?,
        };
        let tree = repository.tree_of(&tip)?;
        let inside = repository.place.prefix(root).to_str();
        let inside = inside.ok_or_else(|| refused(action(), "the workspace's path is not UTF-8"))?;
        let prefix = if inside.is_empty() { String::new() } else { format!("{inside}/") };
        let name = name.to_owned();
        Ok(Branch { name, repository, reference, prefix, tip, tree, start: tip, is_there: there.is_some() })
    }

    /// Makes the commit of an item; the branch does not point to it yet.
    pub(super) fn commit(
        &mut self,
        work: &Work,
        run: &RunIdentity,
        changes: &[Change],
    ) -> Result<GitHash, Stop> {
        self.repository.check_same(work.workspace.path())?;
        let mut converter = self.converter(changes)?;
        self.check_contents(work, changes, &mut converter)?;
        let objects = &self.repository.objects;
        let paths: Vec<String> = changes.iter().map(|change| self.path(&change.path)).collect();
        let mut entries: BTreeMap<&str, Option<Entry>> = BTreeMap::new();
        for (change, path) in changes.iter().zip(&paths) {
            let entry = match &change.after {
                None => None,
                Some(node) => {
                    let bytes = self.content(work, path, node, &mut converter)?;
                    let id = objects.write_buf(Kind::Blob, &bytes);
                    let id = id.map_err(|error| failed(format!("write `{path}`"), &error))?;
                    Some(Entry { mode: mode(node).into(), id })
                }
            };
            entries.insert(path, entry);
        }
        let tree = git::write_tree(objects, &self.tree, entries.iter().map(|(path, entry)| (*path, *entry)))?;
        let commit = Commit {
            tree,
            parents: [self.tip].into_iter().collect(),
            author: self.repository.settings.author()?,
            committer: self.repository.settings.committer()?,
            encoding: None,
            message: message(run).into(),
            extra_headers: Vec::new(),
        };
        let commit = objects.write(&commit).map_err(|error| failed("write the commit", &error))?;
        match self.difference(&commit, &entries)? {
            None => Ok(git::git_hash(&commit)?),
            Some(what) => Err(Stop::Ended(Ending::Conflict(format!(
                "Conflict: a commit to `{}` would not be what was tested: {what}",
                self.name
            )))),
        }
    }

    /// What of a commit, read back, is not the tip with exactly these entries.
    fn difference(
        &self,
        commit: &ObjectId,
        entries: &BTreeMap<&str, Option<Entry>>,
    ) -> Result<Option<String>, WorkError> {
        let tree = self.repository.tree_of(commit)?;
        let objects = &self.repository.objects;
        let known = git::entries_at(objects, &self.tree, entries.keys().copied())?;
        let mut expected: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
        for (path, entry) in entries {
            if known.get(path) != entry.as_ref() {
                expected.insert(path.as_bytes().to_vec(), *entry);
            }
        }
        // One more shows that there are more.
        let found = git::tree_changes(objects, &self.tree, &tree, expected.len() + 1);
        let found = match found {
            Ok(found) => found,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let both = expected.keys().chain(found.keys());
        if let Some(path) = both.clone().find(|path| expected.get(*path) != found.get(*path)) {
            return Ok(Some(format!("`{}` is in the way", String::from_utf8_lossy(path))));
        }
        for (path, entry) in &found {
            let Some(entry) = entry else { continue };
            let bytes = self.repository.object(&entry.id, Kind::Blob)?;
            let id = gix_object::compute_hash(git::HASH, Kind::Blob, &bytes);
            if id.ok() != Some(entry.id) {
                return Ok(Some(format!("`{}` was not stored as written", String::from_utf8_lossy(path))));
            }
        }
        Ok(None)
    }

    /// Points the branch to a commit, unless someone else has moved it.
    pub(super) fn advance(&mut self, commit: &GitHash) -> Result<(), WorkError> {
        let commit = git::object_id(commit.as_str())?;
        self.repository.check_not_checked_out(&self.reference)?;
        self.repository.move_branch(&self.reference, self.is_there.then_some(self.tip), commit)?;
        self.tree = self.repository.tree_of(&commit)?;
        self.tip = commit;
        self.is_there = true;
        Ok(())
    }

    /// What a change that is held for this branch is recorded with.
    pub(super) fn held(&self) -> HeldBranch {
        HeldBranch {
            name: self.name.clone(),
            tip: self.tip.to_string(),
            repository: Some(self.repository.place.shared.clone()),
        }
    }

    /// The same for a change that did not land: it starts from what the branch had when this was opened.
    pub(super) fn at_start(&self) -> HeldBranch {
        HeldBranch { tip: self.start.to_string(), ..self.held() }
    }

    /// The current commit; that of the branch if there is none.
    pub(super) fn head(&self) -> Result<String, WorkError> {
        Ok(self.repository.head()?.unwrap_or(self.tip).to_string())
    }

    /// Opens the branch that a change is held for, in the repository that it was held for.
    pub(super) fn reopen(root: &Path, held: &HeldBranch) -> Result<Self, WorkError> {
        let branch = Branch::open(root, &held.name)?;
        match &held.repository {
            Some(repository) if *repository != branch.repository.place.shared => Err(refused(
                format!("publish to the branch `{}`", held.name),
                format!(
                    "the change is held for the repository `{}`, but the workspace is now in `{}`",
                    repository.display(),
                    branch.repository.place.shared.display()
                ),
            )),
            _ => Ok(branch),
        }
    }

    /// What the branch has since a commit and the workspace has not; the contents go into the store.
    pub(super) fn moved_since(
        &self,
        commit: &str,
        workspace: &Workspace,
        state: &State,
    ) -> Result<Vec<Change>, WorkError> {
        let before = self.repository.tree_of(&git::object_id(commit)?)?;
        let objects = &self.repository.objects;
        let found = git::tree_changes(objects, &before, &self.tree, MAX_MOVED).map_err(|error| {
            refused("merge", format!("{error}; too much changed on `{}`, run again", self.name))
        })?;
        let mut listed = Vec::new();
        for (path, entry) in &found {
            let Some(inside) = path.strip_prefix(self.prefix.as_bytes()) else { continue };
            let Some(path) = std::str::from_utf8(inside).ok().and_then(|path| TreePath::parse(path).ok())
            else {
                continue;
            };
            listed.push((self.path(&path), path, *entry));
        }
        let mut converter =
            Converter::new(&self.repository, &self.tree, listed.iter().map(|(path, ..)| path.as_str()))?;
        let mut moved = Vec::new();
        for (name, path, entry) in listed {
            let after = match entry {
                Some(entry) => self.node(workspace, &name, entry, &mut converter)?,
                None => None,
            };
            let before = state.get(&path).cloned();
            if before != after {
                moved.push(Change { path, before, after });
            }
        }
        Ok(moved)
    }

    /// A file or link of a commit as it would be in the workspace; nothing for a submodule.
    fn node(
        &self,
        workspace: &Workspace,
        path: &str,
        entry: Entry,
        converter: &mut Converter,
    ) -> Result<Option<TreeNode>, WorkError> {
        let executable = match entry.mode.kind() {
            EntryKind::Link => {
                let target = self.repository.object(&entry.id, Kind::Blob)?;
                let target = String::from_utf8(target)
                    .map_err(|error| failed(format!("read the link `{path}`"), &error))?;
                return Ok(Some(TreeNode::Symlink { target: target.into() }));
            }
            EntryKind::Blob => false,
            EntryKind::BlobExecutable => true,
            EntryKind::Tree | EntryKind::Commit => return Ok(None),
        };
        let bytes = converter.convert_to_worktree(path, &self.repository.object(&entry.id, Kind::Blob)?)?;
        let digest = workspace.store().put(&bytes).map_err(KeepError::from)?;
        Ok(Some(TreeNode::File { digest, size_bytes: bytes.len() as u64, executable }))
    }

    /// Refuses changes whose commit would carry what someone has not committed.
    pub(super) fn check_committed(&self, work: &Work, changes: &[Change]) -> Result<(), Stop> {
        self.repository.check_same(work.workspace.path())?;
        self.check_contents(work, changes, &mut self.converter(changes)?)
    }

    /// Refuses a change of a file that is not what the branch has: the commit would carry what someone has not committed.
    fn check_contents(&self, work: &Work, changes: &[Change], converter: &mut Converter) -> Result<(), Stop> {
        let paths: Vec<String> = changes.iter().map(|change| self.path(&change.path)).collect();
        let known = git::entries_at(&self.repository.objects, &self.tree, paths.iter().map(String::as_str))?;
        for (change, path) in changes.iter().zip(&paths) {
            let before = match &change.before {
                None => None,
                Some(node) => {
                    let bytes = self.content(work, path, node, converter)?;
                    let id = gix_object::compute_hash(git::HASH, Kind::Blob, &bytes);
                    Some(id.map_err(|error| failed(format!("hash `{path}`"), &error))?)
                }
            };
            if known.get(path.as_str()).map(|entry| entry.id) != before {
                return Err(Stop::Ended(Ending::Conflict(format!(
                    "Conflict: `{}` is not what the branch `{}` has; commit it first, or publish to the tree",
                    change.path, self.name
                ))));
            }
        }
        Ok(())
    }

    fn converter(&self, changes: &[Change]) -> Result<Converter, WorkError> {
        let paths: Vec<String> = changes.iter().map(|change| self.path(&change.path)).collect();
        Converter::new(&self.repository, &self.tree, paths.iter().map(String::as_str))
    }

    /// A path of the workspace in the repository.
    fn path(&self, path: &TreePath) -> String {
        format!("{}{path}", self.prefix)
    }

    /// A file or link as git keeps it.
    fn content(
        &self,
        work: &Work,
        path: &str,
        node: &TreeNode,
        converter: &mut Converter,
    ) -> Result<Vec<u8>, WorkError> {
        let digest = match node {
            TreeNode::Symlink { target } => return Ok(target.as_bytes().to_vec()),
            TreeNode::File { digest, .. } => digest,
        };
        let bytes = work.workspace.store().read(digest, MAX_CONTENT_BYTES);
        let bytes = bytes.map_err(|error| failed(format!("commit `{path}`"), &error))?;
        // What the commit has decides whether mixed line ends are kept.
        converter.convert_to_git(path, &bytes, || {
            let known = git::entry_at(&self.repository.objects, &self.tree, path)?;
            let known = known.filter(|entry| entry.mode.is_blob());
            known.map(|entry| self.repository.object(&entry.id, Kind::Blob)).transpose()
        })
    }
}

fn mode(node: &TreeNode) -> EntryKind {
    match node {
        TreeNode::File { executable: false, .. } => EntryKind::Blob,
        TreeNode::File { executable: true, .. } => EntryKind::BlobExecutable,
        TreeNode::Symlink { .. } => EntryKind::Link,
    }
}

fn message(run: &RunIdentity) -> String {
    let description = run.item.description.trim();
    let subject = description.lines().next().filter(|line| !line.is_empty()).unwrap_or(run.item.id.as_str());
    let subject: String = Shown::line(subject).to_string().chars().take(72).collect();
    let body = match description == subject {
        true => String::new(),
        false => format!("{}\n\n", quoted_body(description)),
    };
    format!(
        "{subject}\n\n{body}{ITEM_TRAILER}: {}\n{TRAILER}: {}\n",
        Shown::line(run.item.id.as_str()),
        run.id
    )
}

/// A description as the body of a commit: escaped, and a line of it that looks like a trailer of ours is indented.
fn quoted_body(description: &str) -> String {
    let is_forged = |line: &str| {
        let key = line.split(':').next().unwrap_or_default().trim();
        [ITEM_TRAILER, TRAILER].iter().any(|trailer| key.eq_ignore_ascii_case(trailer))
    };
    let lines = description.lines().map(|line| match is_forged(line) {
        true => format!("    {}", Shown::line(line)),
        false => Shown::block(line).to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
