//! Conflicts of a change that lands late: paths that were changed since, and the runs that changed them. Reads receipts;
//! changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crealeph_contracts::run_result::RunStatus;
use crealeph_workspace::{Change, TreeNode, TreePath};

use super::engine::Work;
use super::error::WorkError;
use super::journal::FinishedRun;

/// How many receipts are looked at, newest first.
const MAX_RECEIPTS: usize = 1_000;
/// How many paths a message names.
const MAX_NAMED: usize = 20;

/// A path that is not what it was, and the runs that changed it since, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPath {
    /// The path.
    pub path: String,
    /// The runs, by their short ids; empty if it was changed by none of this workspace.
    pub runs: Vec<String>,
}

impl fmt::Display for ChangedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangedPath { path, runs } = self;
        let names: Vec<String> = runs.iter().map(|run| format!("`{run}`")).collect();
        match names.as_slice() {
            [] => write!(f, "`{path}` was changed by hand"),
            [only] => write!(f, "`{path}` was changed by run {only}"),
            _ => write!(f, "`{path}` was changed by runs {}", names.join(", ")),
        }
    }
}

/// The paths as a message names them, the first twenty.
pub(super) fn listed(paths: &[ChangedPath]) -> String {
    let mut named: Vec<String> = paths.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    if paths.len() > MAX_NAMED {
        named.push(format!("and {} more", paths.len() - MAX_NAMED));
    }
    named.join("; ")
}

/// The paths of a change that are not what it starts from. `now` is what is at a path; one that `is_ignored` is compared when it is
/// published.
pub(super) fn moved<'n>(
    changes: &[Change],
    now: impl Fn(&TreePath) -> Option<&'n TreeNode>,
    is_ignored: impl Fn(&TreePath) -> bool,
) -> Vec<TreePath> {
    let is_moved =
        |change: &&Change| !is_ignored(&change.path) && now(&change.path) != change.before.as_ref();
    changes.iter().filter(is_moved).map(|change| change.path.clone()).collect()
}

/// Which of these runs, given newest first, changed the paths.
pub(super) fn changed_by<'f>(
    work: &Work,
    paths: Vec<TreePath>,
    later: impl Iterator<Item = &'f FinishedRun>,
) -> Result<Vec<ChangedPath>, WorkError> {
    let wanted: BTreeSet<&str> = paths.iter().map(TreePath::as_str).collect();
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // The merge of a level repeats what its runs changed.
    let landed = later.filter(|finished| finished.status == RunStatus::Success && finished.item.is_some());
    for finished in landed.take(MAX_RECEIPTS) {
        let Some((receipt, _)) = work.receipt_of(&finished.run)? else { continue };
        for artifact in receipt.artifacts.as_slice() {
            if wanted.contains(artifact.path.as_str()) {
                runs.entry(artifact.path.as_str().to_owned())
                    .or_default()
                    .push(work.runs.short(&finished.run));
            }
        }
    }
    let named = paths.iter().map(|path| ChangedPath {
        path: path.to_string(),
        runs: runs.remove(path.as_str()).unwrap_or_default(),
    });
    Ok(named.collect())
}
