//! Which paths of a workspace a view does not show: `.crealeph`, private paths, and what `hide` names. By default `hide` leaves out
//! files that are byte for byte as in the current commit: the agent can read them in `.git` anyway, and tests need them. A file that was changed since the
//! commit stays hidden, because its current content is not published. Contents of all files that `hide` names are withheld from stores and
//! exports, shown or not, except what the run itself changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::{Blake3, ContentDigests, GitHash};
use crealeph_contracts::provenance::HiddenFacts;
use crealeph_contracts::scalar::{Count, Text};
use crealeph_workspace::{Change, Wanted, Workspace};

use super::config::Hide;
use super::objects;

/// How many hidden paths there may be, and how many files are looked at in folders that are hidden.
const MAX_HIDDEN: usize = 10_000;
/// How many of them a statement names.
const MAX_STATED: usize = 1_000;
/// The largest file that is compared with the commit; a larger one stays hidden.
const MAX_COMPARED_BYTES: u64 = 16 << 20;
/// Never in a view: the store of the workspace, with receipts, keys and the ledger.
const CONTROL: &str = ".crealeph";

/// What a view does not show, and what `hide` names and it shows all the same.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenPaths {
    /// Relative to the workspace, sorted.
    pub(super) paths: Vec<PathBuf>,
    /// The same with what is shown because it is committed: what no store and no export has, because its reader need not have
    /// the repository.
    pub(super) withheld: Vec<PathBuf>,
    shown: BTreeSet<String>,
}

impl HiddenPaths {
    /// What is hidden in a workspace as it is now. A path that an admitted change touches is shown like a committed file: what is
    /// there is what the change leaves, not what `hide` is to protect.
    ///
    /// # Errors
    /// When the workspace cannot be listed, or more is hidden than can be.
    pub(super) fn find(
        workspace: &Workspace,
        hide: &Hide,
        private: &[PathBuf],
        touched: &[Change],
    ) -> io::Result<Self> {
        let mut asked = format!("{:?} in any case\n", hide.written).into_bytes();
        for path in private {
            asked.extend_from_slice(path.as_os_str().as_bytes());
            asked.push(0);
        }
        let is_wanted = |path: &Path| {
            path.file_name().is_some_and(|name| name == CONTROL)
                || hide.globs.is_match(path)
                || private.iter().any(|private| private == path)
        };
        let paths =
            workspace.find(&Wanted { is_wanted: &is_wanted, name: Blake3::of(&asked), max: MAX_HIDDEN })?;
        if !hide.shows_committed {
            return Ok(HiddenPaths { withheld: paths.clone(), paths, shown: BTreeSet::new() });
        }
        let withheld = paths.clone();
        let is_private = |path: &Path| private.iter().any(|private| path.starts_with(private));
        let is_of_globs = |path: &PathBuf| !is_private(path) && hide.globs.is_match(path);
        let (of_globs, mut others): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(is_of_globs);
        let touched = touched.iter().map(|change| change.path.as_str());
        let is_named = |path: &&str| hide.covering(path).is_some() && !is_private(Path::new(path));
        let touched: BTreeSet<&str> = touched.filter(is_named).collect();
        let (hidden, mut shown) = without_known(workspace.path(), of_globs, &touched);
        shown.extend(touched.into_iter().map(str::to_owned));
        others.extend(hidden);
        others.sort();
        Ok(HiddenPaths { paths: others, withheld, shown })
    }

    /// The glob that hides a path, or a folder that it is in; nothing if it is shown.
    pub(super) fn covering<'h>(&self, hide: &'h Hide, path: &str) -> Option<&'h str> {
        match self.shown.contains(path) {
            true => None,
            false => hide.covering(path),
        }
    }

    /// Whether a change touches something that is shown although `hide` names it.
    pub(super) fn is_shown_and(&self, is_touched: impl Fn(&str) -> bool) -> bool {
        self.shown.iter().any(|path| is_touched(path))
    }

    /// What a statement says of it: what `hide` names, since the rest is no one's but the program's own.
    pub(super) fn facts(&self, hide: &Hide) -> HiddenFacts {
        let all: Vec<&PathBuf> = self.paths.iter().filter(|path| hide.covering(path).is_some()).collect();
        // A path that is not UTF-8 cannot be named, and counts.
        let named: Vec<Text> =
            all.iter().filter_map(|path| Text::new(path.to_str()?)).take(MAX_STATED).collect();
        let left_off = (all.len() - named.len()) as u64;
        HiddenFacts {
            paths: named.into_iter().collect(),
            left_off: Count::new(left_off).filter(|count| count.get() > 0),
        }
    }
}

/// Paths without the files that are as the current commit has them, or that are touched; a folder that holds such a file gives way to
/// its other files.
fn without_known(
    root: &Path,
    paths: Vec<PathBuf>,
    touched: &BTreeSet<&str>,
) -> (Vec<PathBuf>, BTreeSet<String>) {
    let mut files: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    let mut rest = MAX_HIDDEN;
    for path in paths {
        let mut inside = Vec::new();
        // A folder with more files than are looked at stays hidden as a whole.
        if !list(root, &path, &mut inside, &mut rest) {
            inside.clear();
        }
        files.insert(path, inside);
    }
    let names: Vec<&str> = files.values().flatten().filter_map(|path| path.to_str()).collect();
    let committed: BTreeMap<String, GitHash> = match names.is_empty() {
        true => BTreeMap::new(),
        false => (objects::of(root).find)(&names).into_iter().collect(),
    };
    let is_known = |path: &PathBuf| {
        let blob = path.to_str().and_then(|name| committed.get(name));
        path.to_str().is_some_and(|name| touched.contains(name))
            || blob.is_some_and(|blob| blob_at(&root.join(path)).as_ref() == Some(blob))
    };
    let (mut hidden, mut shown) = (Vec::new(), BTreeSet::new());
    for (path, inside) in files {
        let (known, others): (Vec<PathBuf>, Vec<PathBuf>) = inside.into_iter().partition(is_known);
        match known.is_empty() {
            true => hidden.push(path),
            false => hidden.extend(others),
        }
        shown.extend(known.iter().filter_map(|path| path.to_str()).map(str::to_owned));
    }
    (hidden, shown)
}

/// Everything at or below a path that is no folder; false if there is more than is looked at, or it cannot be listed.
fn list(root: &Path, path: &Path, found: &mut Vec<PathBuf>, rest: &mut usize) -> bool {
    let Ok(metadata) = fs::symlink_metadata(root.join(path)) else { return false };
    if !metadata.is_dir() {
        found.push(path.to_owned());
        *rest = rest.saturating_sub(1);
        return *rest > 0;
    }
    let Ok(entries) = fs::read_dir(root.join(path)) else { return false };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        if !list(root, &path.join(entry.file_name()), found, rest) {
            return false;
        }
    }
    true
}

/// Git's name for the content of a file; nothing for a link, whose target may be anything.
fn blob_at(path: &Path) -> Option<GitHash> {
    let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    if metadata.len() > MAX_COMPARED_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_COMPARED_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(ContentDigests::of(&bytes).git_blob)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use globset::{Glob, GlobSet};

    use super::*;

    #[test]
    fn a_hidden_path_that_cannot_be_named_is_counted() {
        let globs = GlobSet::builder().add(Glob::new("secrets/**").unwrap()).build().unwrap();
        let hide = Hide { globs, written: vec!["secrets/**".to_owned()], shows_committed: false };
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        let paths = vec![path(b".crealeph"), path(b"secrets/a"), path(b"secrets/\xff")];
        let hidden = HiddenPaths { withheld: paths.clone(), paths, shown: BTreeSet::new() };
        let facts = hidden.facts(&hide);
        let named: Vec<&str> = facts.paths.as_slice().iter().map(Text::as_str).collect();
        assert_eq!((named, facts.left_off.map(Count::get)), (vec!["secrets/a"], Some(1)));
    }
}
