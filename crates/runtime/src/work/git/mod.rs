//! The git repository around a workspace, read and written by a library. Owns finding it, whether it can be used, and its
//! objects and references; starts no program, and lets no hook, filter or setting of the repository start one.
//!
//! The repository is found by the name `.git` from the workspace upwards, before any agent runs. The environment
//! (`GIT_DIR` and the like) does not count, nor does a folder that merely looks like a repository.

mod content;
mod settings;
mod tree;

use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::digest::GitHash;
use crealeph_contracts::text::with_causes;
use crealeph_workspace::GitRepository;
use gix_hash::ObjectId;
use gix_object::{CommitRef, Exists as _, Find as _, Kind};
use gix_ref::{FullName, Target};

pub(super) use self::content::Converter;
pub(super) use self::settings::Settings;
pub(super) use self::tree::{Entry, entries_at, entry_at, tree_changes, write_tree};
use super::error::WorkError;

/// The only object format that is supported.
pub(super) const HASH: gix_hash::Kind = gix_hash::Kind::Sha1;
/// The largest object that is read.
pub(super) const MAX_OBJECT_BYTES: usize = 1 << 30;
/// How many symbolic references lead to a commit at most, as in git.
const MAX_SYMBOLIC: usize = 5;
/// How far the clocks of those who commit may be apart.
const CLOCK_SLOP_SECONDS: i64 = 86_400;
/// Files of a git folder that name a branch that is being worked on there, in addition to `HEAD`.
const BUSY_FILES: [&str; 3] = ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"];
/// The largest of them that is read.
const MAX_SMALL_BYTES: u64 = 1 << 16;

/// The objects of a repository.
pub(super) type Objects = gix_odb::HandleArc;

/// An open repository.
pub(super) struct Repository {
    pub(super) place: GitRepository,
    pub(super) settings: Settings,
    pub(super) objects: Objects,
    references: gix_ref::file::Store,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository").field("place", &self.place).finish_non_exhaustive()
    }
}

/// An error of the repository, in one line.
pub(super) fn failed(action: impl Into<String>, error: &(dyn std::error::Error + 'static)) -> WorkError {
    WorkError::Git { action: action.into(), why: with_causes(error) }
}

/// A property of the repository that rules out the request.
pub(super) fn refused(action: impl Into<String>, why: impl Into<String>) -> WorkError {
    WorkError::Git { action: action.into(), why: why.into() }
}

/// Where the repository around a workspace is, with every link on the way resolved.
pub(super) fn find(workspace: &Path) -> Result<Option<GitRepository>, WorkError> {
    let found = GitRepository::around(workspace).map_err(|error| failed("find the repository", &error))?;
    let Some(found) = found else { return Ok(None) };
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| failed(format!("open `{}`", path.display()), &error))
    };
    Ok(Some(GitRepository {
        own: real(&found.own)?,
        shared: real(&found.shared)?,
        work_tree: found.work_tree,
    }))
}

/// The objects of a repository.
pub(super) fn objects(place: &GitRepository) -> std::io::Result<Objects> {
    let options = gix_odb::store::init::Options {
        alloc_limit_bytes: Some(MAX_OBJECT_BYTES),
        ..gix_odb::store::init::Options::default()
    };
    let none = &mut std::iter::empty();
    let store = gix_odb::Store::at_opts(place.shared.join("objects"), HASH, none, options)?;
    Ok(Arc::new(store).to_cache_arc())
}

/// The references of a repository.
fn references(place: &GitRepository, settings: &Settings) -> gix_ref::file::Store {
    let options = gix_ref::store::init::Options {
        write_reflog: settings.write_reflog,
        ..gix_ref::store::init::Options::default()
    };
    match place.own == place.shared {
        true => gix_ref::file::Store::at_opts(place.own.clone(), HASH, options),
        false => gix_ref::file::Store::for_linked_worktree_opts(
            place.own.clone(),
            place.shared.clone(),
            HASH,
            options,
        ),
    }
}

impl Repository {
    /// Opens the repository around a workspace; absent if it is in no repository.
    pub(super) fn open(workspace: &Path) -> Result<Option<Self>, WorkError> {
        let Some(place) = find(workspace)? else { return Ok(None) };
        let settings = Settings::read(&place)?;
        settings.check(&place)?;
        let action = || format!("open `{}`", place.shared.display());
        let objects = objects(&place).map_err(|error| failed(action(), &error))?;
        let references = references(&place, &settings);
        Ok(Some(Repository { place, settings, objects, references }))
    }

    /// Fails unless the repository around the workspace is still this one.
    pub(super) fn check_same(&self, workspace: &Path) -> Result<(), WorkError> {
        let now = find(workspace)?;
        match now.as_ref() == Some(&self.place) {
            true => Ok(()),
            false => Err(refused(
                "use the repository",
                format!(
                    "the workspace was in the repository `{}` when the run started, but is no longer; run again",
                    self.place.shared.display()
                ),
            )),
        }
    }

    /// The commit that a branch points to; absent if there is no such branch.
    pub(super) fn branch_tip(&self, name: &FullName) -> Result<Option<ObjectId>, WorkError> {
        let action = || format!("read `{name}`");
        let found = self.references.try_find(name.as_ref()).map_err(|error| failed(action(), &error))?;
        match found.map(|reference| reference.target) {
            None => Ok(None),
            Some(Target::Object(id)) => {
                self.tree_of(&id)?;
                Ok(Some(id))
            }
            Some(Target::Symbolic(to)) => {
                Err(refused(action(), format!("it is a symbolic reference to `{to}`; name that branch")))
            }
        }
    }

    /// The commit that is checked out; absent if there is no commit yet.
    pub(super) fn head(&self) -> Result<Option<ObjectId>, WorkError> {
        let action = "read HEAD";
        let mut name = FullName::try_from("HEAD").map_err(|error| failed(action, &error))?;
        for _ in 0..=MAX_SYMBOLIC {
            let found = self.references.try_find(name.as_ref()).map_err(|error| failed(action, &error))?;
            match found.map(|reference| reference.target) {
                None => return Ok(None),
                Some(Target::Object(id)) => return Ok(Some(id)),
                Some(Target::Symbolic(to)) => name = to,
            }
        }
        Err(refused(action, format!("more than {MAX_SYMBOLIC} symbolic references lead to it")))
    }

    /// The tree of a commit.
    pub(super) fn tree_of(&self, commit: &ObjectId) -> Result<ObjectId, WorkError> {
        self.with_commit(commit, |commit| commit.tree())
    }

    fn with_commit<T>(&self, id: &ObjectId, read: impl FnOnce(&CommitRef<'_>) -> T) -> Result<T, WorkError> {
        let action = || format!("read commit `{id}`");
        let bytes = self.object(id, Kind::Commit)?;
        let commit = CommitRef::from_bytes(&bytes, HASH).map_err(|error| failed(action(), &error))?;
        Ok(read(&commit))
    }

    /// The bytes of an object of a kind.
    pub(super) fn object(&self, id: &ObjectId, kind: Kind) -> Result<Vec<u8>, WorkError> {
        object(&self.objects, id, kind)
    }

    /// Whether a branch has a commit in its history.
    pub(super) fn has_in_history(&self, name: &FullName, commit: &ObjectId) -> Result<bool, WorkError> {
        let Some(tip) = self.branch_tip(name)? else { return Ok(false) };
        if !self.objects.exists(commit) {
            return Ok(false);
        }
        // Newest first, so a commit that was made recently is found after few steps.
        let time = |id: &ObjectId| {
            self.with_commit(id, |commit| commit.committer().ok().and_then(|who| who.time().ok()))
                .map(|time| time.map_or(0, |time| time.seconds))
        };
        let oldest = time(commit)?.saturating_sub(CLOCK_SLOP_SECONDS);
        let mut seen = BTreeSet::from([tip]);
        let mut next = BinaryHeap::from([(time(&tip)?, tip)]);
        while let Some((seconds, id)) = next.pop() {
            if id == *commit {
                return Ok(true);
            }
            if seconds < oldest {
                break;
            }
            let parents = self.with_commit(&id, |commit| commit.parents().collect::<Vec<_>>())?;
            for parent in parents {
                // A shallow clone ends somewhere.
                if self.objects.exists(&parent) && seen.insert(parent) {
                    next.push((time(&parent)?, parent));
                }
            }
        }
        Ok(false)
    }

    /// Fails if a branch is checked out: the files there would not follow it, and seem to undo what it has.
    pub(super) fn check_not_checked_out(&self, name: &FullName) -> Result<(), WorkError> {
        match self.checked_out_in(name) {
            None => Ok(()),
            Some(place) => Err(refused(
                format!("publish to the branch `{}`", name.shorten()),
                format!(
                    "it is checked out in `{}`, whose files would not follow; name another branch and merge it, or publish to the tree",
                    place.display()
                ),
            )),
        }
    }

    /// A branch whose name is a folder of this one's, or the reverse: both cannot exist.
    pub(super) fn branch_in_the_way(&self, name: &FullName) -> Result<Option<String>, WorkError> {
        let short = name.shorten().to_string();
        let action = || format!("look for branches next to `{short}`");
        for (end, _) in short.char_indices().filter(|(_, c)| *c == '/') {
            let above = branch_name(short.get(..end).unwrap_or_default())?;
            let found = self.references.try_find(above.as_ref()).map_err(|error| failed(action(), &error))?;
            if let Some(found) = found {
                return Ok(Some(found.name.shorten().to_string()));
            }
        }
        let inside = format!("{}/", name.as_bstr());
        let all = self.references.iter().map_err(|error| failed(action(), &error))?;
        let inside = inside.as_str().try_into().map_err(|error| failed(action(), &error))?;
        let mut below = all.prefixed(inside).map_err(|error| failed(action(), &error))?;
        Ok(below.find_map(Result::ok).map(|found| found.name.shorten().to_string()))
    }

    /// The working tree that a branch is checked out in, or is being rebased or bisected in.
    fn checked_out_in(&self, name: &FullName) -> Option<PathBuf> {
        let shared = &self.place.shared;
        if !self.settings.is_bare && is_busy_with(shared, name) {
            // The main working tree is the folder around its git folder, if that has the usual name.
            let is_usual = shared.file_name().is_some_and(|name| name == ".git");
            let around = shared.parent().filter(|_| is_usual).unwrap_or(shared);
            return Some(around.to_owned());
        }
        let linked = std::fs::read_dir(shared.join("worktrees")).ok()?;
        let busy = linked.filter_map(Result::ok).find(|entry| is_busy_with(&entry.path(), name))?;
        let place = small_text(&busy.path().join("gitdir"))
            .and_then(|text| Path::new(text.trim_end()).parent().map(Path::to_owned));
        Some(place.unwrap_or(busy.path()))
    }

    /// Points a branch to a commit, if it still points to `old`, or is still absent if `old` is.
    pub(super) fn move_branch(
        &self,
        name: &FullName,
        old: Option<ObjectId>,
        new: ObjectId,
    ) -> Result<(), WorkError> {
        use gix_ref::transaction::{PreviousValue, RefEdit};
        let action = || format!("move `{name}` to `{new}`");
        let expected = match old {
            Some(old) => PreviousValue::MustExistAndMatch(Target::Object(old)),
            None => PreviousValue::MustNotExist,
        };
        let edit = RefEdit::update(name.clone(), new, expected, "crealeph work");
        let at_once = gix_lock::acquire::Fail::Immediately;
        let prepared = self
            .references
            .transaction()
            .prepare([edit], at_once, at_once)
            .map_err(|error| failed(action(), &error))?;
        let committer = self.settings.committer()?;
        let mut time = gix_date::parse::TimeBuf::default();
        let reflogged = prepared.commit(committer.to_ref(&mut time));
        reflogged.map_err(|error| failed(action(), &error))?;
        // Git syncs what a reference says, too.
        let path = self.place.shared.join(name.as_bstr().to_string());
        let synced = std::fs::File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|error| failed(action(), &error))
    }
}

/// The bytes of an object of a kind.
pub(super) fn object(objects: &Objects, id: &ObjectId, kind: Kind) -> Result<Vec<u8>, WorkError> {
    let action = || format!("read {kind} `{id}`");
    let mut bytes = Vec::new();
    let found = objects.try_find(id, &mut bytes).map_err(|error| failed(action(), &error))?;
    match found.map(|data| data.kind) {
        Some(found) if found == kind => Ok(bytes),
        Some(found) => Err(refused(action(), format!("it is a {found}"))),
        None => Err(refused(
            action(),
            "the repository does not have it; a partial clone fetches it with `git fetch --refetch --no-filter`",
        )),
    }
}

/// The full name of a branch.
pub(super) fn branch_name(name: &str) -> Result<FullName, WorkError> {
    let action = || format!("use the branch `{name}`");
    if name.starts_with('-') || matches!(name, "HEAD" | "@") {
        return Err(refused(action(), "a branch cannot have this name"));
    }
    FullName::try_from(format!("refs/heads/{name}")).map_err(|error| failed(action(), &error))
}

/// A hash as contracts have it.
pub(super) fn git_hash(id: &ObjectId) -> Result<GitHash, WorkError> {
    GitHash::parse(&id.to_string()).ok_or_else(|| refused("name an object", id.to_string()))
}

/// A hash as the library has it.
pub(super) fn object_id(hash: &str) -> Result<ObjectId, WorkError> {
    ObjectId::from_hex(hash.as_bytes()).map_err(|error| failed(format!("use the object `{hash}`"), &error))
}

fn is_busy_with(git_folder: &Path, name: &FullName) -> bool {
    let (full, short) = (name.as_bstr().to_string(), name.shorten().to_string());
    let head = small_text(&git_folder.join("HEAD"));
    let is_head =
        head.is_some_and(|text| text.trim_end().strip_prefix("ref: ").map(str::trim) == Some(&full));
    is_head
        || BUSY_FILES.iter().filter_map(|file| small_text(&git_folder.join(file))).any(|text| {
            let text = text.trim_end();
            text == full || text == short
        })
}

fn small_text(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
    (metadata.size() <= MAX_SMALL_BYTES).then(|| std::fs::read_to_string(path).ok()).flatten()
}
