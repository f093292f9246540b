//! The difference between two states, path by path (R27). Owns the kinds of change.

use crealeph_contracts::receipt;

use crate::node::TreeNode;
use crate::path::TreePath;
use crate::state::State;

/// One changed path. At least one of `before` and `after` is present, and they differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: TreePath,
    /// Its entry before.
    pub before: Option<TreeNode>,
    /// Its entry after.
    pub after: Option<TreeNode>,
}

/// The kind of change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It was deleted.
    Deleted,
    /// Its content changed; its executable bit may have, too.
    Modified,
    /// Only its executable bit changed.
    Mode,
    /// A link has another target.
    Retargeted,
    /// A file became a link, or a link a file.
    Replaced,
}

impl Change {
    /// The kind of the change.
    pub fn kind(&self) -> ChangeKind {
        match (&self.before, &self.after) {
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            (Some(TreeNode::File { digest: before, .. }), Some(TreeNode::File { digest: after, .. })) => {
                if before == after {
                    ChangeKind::Mode
                } else {
                    ChangeKind::Modified
                }
            }
            (Some(TreeNode::Symlink { .. }), Some(TreeNode::Symlink { .. })) => ChangeKind::Retargeted,
            _ => ChangeKind::Replaced,
        }
    }

    /// The word for it in a receipt.
    pub fn in_receipt(&self) -> receipt::ArtifactChange {
        match self.kind() {
            ChangeKind::Created => receipt::ArtifactChange::Created,
            ChangeKind::Deleted => receipt::ArtifactChange::Deleted,
            _ => receipt::ArtifactChange::Modified,
        }
    }

    /// Whether the executable bit of a file that stays a file changed.
    pub(crate) fn changes_mode(&self) -> bool {
        match (&self.before, &self.after) {
            (
                Some(TreeNode::File { executable: before, .. }),
                Some(TreeNode::File { executable: after, .. }),
            ) => before != after,
            _ => false,
        }
    }
}

/// The changes from one state to another, sorted by path. Folders that are the same are skipped.
pub fn changes_between(before: &State, after: &State) -> Vec<Change> {
    let mut changes = Vec::new();
    before.root().differences(after.root(), "", &mut changes);
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

#[cfg(test)]
mod tests {
    use crealeph_contracts::digest::Blake3;
    use crealeph_contracts::receipt::ArtifactChange;

    use super::*;

    #[test]
    fn a_change_is_of_one_kind() {
        let file = |text: &str, executable| {
            let (digest, size_bytes) = (Blake3::of(text.as_bytes()), text.len() as u64);
            Some(TreeNode::File { digest, size_bytes, executable })
        };
        let link = |target: &str| Some(TreeNode::Symlink { target: target.into() });
        for (before, after, kind, reported, is_mode) in [
            (None, file("a", true), ChangeKind::Created, ArtifactChange::Created, false),
            (file("a", true), None, ChangeKind::Deleted, ArtifactChange::Deleted, false),
            (file("a", false), file("b", false), ChangeKind::Modified, ArtifactChange::Modified, false),
            (file("a", false), file("b", true), ChangeKind::Modified, ArtifactChange::Modified, true),
            (file("a", false), file("a", true), ChangeKind::Mode, ArtifactChange::Modified, true),
            (link("a"), link("b"), ChangeKind::Retargeted, ArtifactChange::Modified, false),
            (link("a"), file("a", true), ChangeKind::Replaced, ArtifactChange::Modified, false),
        ] {
            let change = Change { path: TreePath::parse("p").unwrap(), before, after };
            assert_eq!(
                (change.kind(), change.in_receipt(), change.changes_mode()),
                (kind, reported, is_mode)
            );
        }
    }
}
