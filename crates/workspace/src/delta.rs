//! Deltas (R28): one per changed hunk of a text file, one per other change. Owns what counts as text and how it is compared;
//! refuses nothing, since an uncounted delta would be a way around a limit.
//!
//! A file that was changed is compared line by line when both sides are text: no NUL byte, and at most 32 MiB. Lines end
//! after a line feed. A created, deleted, retargeted, replaced or binary file is one delta; a changed executable bit is
//! one more than the hunks of the same file.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::receipt::Delta;
use crealeph_contracts::scalar::Count;
use crealeph_contracts::work_item::WorkspacePath;
use imara_diff::{Algorithm, Diff, InternedInput};

use crate::change::{Change, ChangeKind};
use crate::deadline::Deadline;
use crate::node::TreeNode;
use crate::scan::ScanError;
use crate::store::StoreError;
use crate::workspace::Workspace;

/// The name of the algorithm in receipts: the histogram algorithm of imara-diff, without post-processing.
pub const DIFF_ALGORITHM: &str = "imara-diff-0.2/histogram";

/// The largest text that is compared by lines.
pub(crate) const MAX_TEXT_BYTES: u64 = 32 << 20;
/// How many deltas are listed; all are counted.
const MAX_LISTED: usize = 100_000;

/// Why deltas cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum DeltaError {
    /// A content cannot be read from the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the workspace cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A content is no longer in the store or in the workspace.
    #[error(
        "`{0}` has changed since before the run, and its earlier content was not kept; keep the state before a run"
    )]
    Lost(String),
    /// The caller's deadline passed.
    #[error("the time for comparing what the run changed is over")]
    Stopped,
}

/// The deltas of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deltas {
    /// The deltas, sorted by path and line; at most 100,000.
    pub listed: Vec<Delta>,
    /// How many more there are of a path, in the same order.
    pub unlisted: Vec<(WorkspacePath, u64)>,
    /// How many there are.
    pub total: u64,
}

impl Deltas {
    fn push(&mut self, delta: Delta) {
        self.total += 1;
        if self.listed.len() < MAX_LISTED {
            return self.listed.push(delta);
        }
        match self.unlisted.last_mut() {
            Some((path, count)) if *path == delta.path => *count += 1,
            _ => self.unlisted.push((delta.path, 1)),
        }
    }
}

impl Workspace {
    /// The deltas of these changes, whose contents are in the store or, before, still in the workspace.
    ///
    /// # Errors
    /// If a content cannot be read, or the deadline passed.
    pub fn deltas(&self, changes: &[Change], deadline: Deadline<'_>) -> Result<Deltas, DeltaError> {
        let mut deltas = Deltas::default();
        for change in changes {
            if deadline.is_over() {
                return Err(DeltaError::Stopped);
            }
            let whole = Delta {
                path: change.path.as_workspace_path().clone(),
                line: None,
                removed: None,
                added: None,
            };
            let hunks = match change.kind() {
                ChangeKind::Modified => self.hunks(change)?,
                _ => None,
            };
            match hunks {
                None => deltas.push(whole.clone()),
                Some(hunks) => hunks.iter().for_each(|hunk| deltas.push(delta_of(hunk, &whole))),
            }
            if change.kind() == ChangeKind::Modified && change.changes_mode() {
                deltas.push(whole);
            }
        }
        Ok(deltas)
    }

    /// The hunks of a changed file, or `None` if one side is not text.
    fn hunks(&self, change: &Change) -> Result<Option<Vec<imara_diff::Hunk>>, DeltaError> {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return Ok(None) };
        let Some(before) = self.text(change, before)? else { return Ok(None) };
        let Some(after) = self.text(change, after)? else { return Ok(None) };
        Ok(Some(hunks_of(&before, &after)))
    }

    pub(crate) fn text(&self, change: &Change, node: &TreeNode) -> Result<Option<Vec<u8>>, DeltaError> {
        let TreeNode::File { digest, size_bytes, .. } = node else { return Ok(None) };
        if *size_bytes > MAX_TEXT_BYTES {
            return Ok(None);
        }
        let bytes = match self.store().read_copy(digest, MAX_TEXT_BYTES) {
            Err(StoreError::Missing(_)) => match self.bytes_in_place(change, digest) {
                Err(DeltaError::Lost(path)) => match self.store().read(digest, MAX_TEXT_BYTES) {
                    Err(StoreError::Missing(_)) => return Err(DeltaError::Lost(path)),
                    read => read?,
                },
                bytes => bytes?,
            },
            read => read?,
        };
        Ok((!bytes.contains(&0)).then_some(bytes))
    }

    /// The bytes of a file of the workspace, if they are still the expected ones.
    fn bytes_in_place(&self, change: &Change, digest: &Blake3) -> Result<Vec<u8>, DeltaError> {
        let path = change.path.as_str();
        let lost = || DeltaError::Lost(path.to_owned());
        let file = self.root.file(path).map_err(|_| lost())?;
        let mut bytes = Vec::new();
        let mut bounded = std::io::Read::take(file, MAX_TEXT_BYTES + 1);
        let read = std::io::Read::read_to_end(&mut bounded, &mut bytes);
        read.map_err(|source| ScanError::Io { path: self.root.at(path), source })?;
        if Blake3::of(&bytes) == *digest { Ok(bytes) } else { Err(lost()) }
    }
}

fn delta_of(hunk: &imara_diff::Hunk, whole: &Delta) -> Delta {
    let lines = |range: &std::ops::Range<u32>| Count::new(u64::from(range.end.saturating_sub(range.start)));
    Delta {
        path: whole.path.clone(),
        line: Count::new(u64::from(hunk.before.start) + 1),
        removed: lines(&hunk.before),
        added: lines(&hunk.after),
    }
}

fn hunks_of(before: &[u8], after: &[u8]) -> Vec<imara_diff::Hunk> {
    let input = InternedInput::new(before, after);
    Diff::compute(Algorithm::Histogram, &input).hunks().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn deltas_past_the_list_are_still_counted_by_path() {
        let delta = |path: &str| {
            let path = WorkspacePath::parse(path).unwrap();
            Delta { path, line: None, removed: None, added: None }
        };
        let mut deltas = Deltas::default();
        let paths = std::iter::repeat_n("a", MAX_LISTED + 2).chain(["b", "c", "c"]);
        paths.for_each(|path| deltas.push(delta(path)));
        let unlisted: Vec<_> = deltas.unlisted.iter().map(|(path, count)| (path.as_str(), *count)).collect();
        assert_eq!(unlisted, [("a", 2), ("b", 1), ("c", 2)]);
        assert_eq!((deltas.listed.len(), deltas.total), (MAX_LISTED, MAX_LISTED as u64 + 5));
    }
}
