//! Conflicts of a change that lands late: paths that were changed since, and the runs that changed them. Reads receipts;
//! changes nothing.

use std::collections::BTreeSet;
use std::fmt;

use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::uuid::Uuid;
use crealeph_workspace::TreePath;

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
    /// The runs, by their short ids; empty if no receipt that was read has it.
    pub runs: Vec<String>,
    /// How many runs since then may also have changed it: their receipts were not read, or are missing.
    pub unread_runs: usize,
}

impl fmt::Display for ChangedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangedPath { path, runs, unread_runs } = self;
        let names: Vec<String> = runs.iter().map(|run| format!("`{run}`")).collect();
        match names.as_slice() {
            [] if *unread_runs > 0 => write!(
                f,
                "`{path}` was changed by hand or by a run (receipts since then that were not read: {unread_runs})"
            ),
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

/// Which of these runs, given newest first, changed the paths.
pub(super) fn changed_by<'f>(
    work: &Work,
    paths: Vec<TreePath>,
    later: impl Iterator<Item = &'f FinishedRun>,
) -> Result<Vec<ChangedPath>, WorkError> {
    // The merge of a level repeats what its runs changed.
    let landed = later.filter(|finished| finished.status == RunStatus::Success && finished.item.is_some());
    attribute(&paths, landed.map(|finished| &finished.run), |run| {
        let Some((receipt, _)) = work.receipt_of(run)? else { return Ok(None) };
        let artifacts = receipt.artifacts.as_slice().iter();
        let changed = artifacts.map(|artifact| artifact.path.as_str().to_owned()).collect();
        Ok(Some((work.runs.short(run), changed)))
    })
}

/// The runs that changed each path, by what their receipts list; a receipt is read as the run's short id and its paths, if it is there.
fn attribute<'f>(
    paths: &[TreePath],
    runs: impl Iterator<Item = &'f Uuid>,
    read: impl Fn(&Uuid) -> Result<Option<(String, BTreeSet<String>)>, WorkError>,
) -> Result<Vec<ChangedPath>, WorkError> {
    let unread = |path: &TreePath| ChangedPath { path: path.to_string(), runs: Vec::new(), unread_runs: 0 };
    let mut named: Vec<ChangedPath> = paths.iter().map(unread).collect();
    let mut unread_runs = 0;
    for (looked_at, run) in runs.enumerate() {
        match if looked_at < MAX_RECEIPTS { read(run)? } else { None } {
            Some((short, changed)) => {
                let changed = named.iter_mut().filter(|named| changed.contains(&named.path));
                changed.for_each(|named| named.runs.push(short.clone()));
            }
            None => unread_runs += 1,
        }
    }
    named.iter_mut().for_each(|named| named.unread_runs = unread_runs);
    Ok(named)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn no_one_is_blamed_for_what_a_run_whose_receipt_was_not_read_may_have_changed() {
        let run = |number: usize| Uuid::parse(&format!("00000000-0000-7000-8000-{number:012}")).unwrap();
        let said = |count: usize, missing: Option<usize>, changed_in: usize| {
            let runs: Vec<Uuid> = (0..count).map(run).collect();
            let paths = [TreePath::parse("a.txt").unwrap()];
            let found = attribute(&paths, runs.iter(), |read| {
                let files = if *read == run(changed_in) { "a.txt" } else { "b.txt" };
                let is_there = missing.is_none_or(|missing| *read != run(missing));
                Ok(is_there.then(|| ("0190".to_owned(), BTreeSet::from([files.to_owned()]))))
            });
            listed(&found.unwrap())
        };
        assert_eq!(said(MAX_RECEIPTS, None, MAX_RECEIPTS), "`a.txt` was changed by hand");
        assert_eq!(said(MAX_RECEIPTS + 2, Some(3), 4), "`a.txt` was changed by run `0190`");
        let unknown = "`a.txt` was changed by hand or by a run (receipts since then that were not read: ";
        assert_eq!(said(MAX_RECEIPTS + 2, None, MAX_RECEIPTS + 1), format!("{unknown}2)"));
        assert_eq!(said(5, Some(3), 3), format!("{unknown}1)"));
    }
}
