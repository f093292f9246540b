//! The state of a workspace and its hash (R26). Owns the definition of the state hash; refuses two entries at one path.
//!
//! # The state hash, version 1
//!
//! A state is a set of paths, each with a kind and a content. A path is UTF-8, names joined by `/`. The kinds and their
//! contents are
//!
//! - `file`, a regular file whose owner may not execute it, and `exec`, one whose owner may: its bytes;
//! - `link`, a symbolic link: its target as it is written.
//!
//! Owner, group, other permissions, times, extended attributes and empty folders are not part of a state.
//!
//! The digest of a folder is the BLAKE3 (256 bits, no key) of these bytes: the 17 bytes `crealeph-tree-v1` and a line
//! feed, then for each name in the folder, sorted by its bytes,
//!
//! ```text
//! <kind> <digest> <name> NUL
//! ```
//!
//! with one space between. `<digest>` is 64 lower-case hex digits: for `file`, `exec` and `link` the BLAKE3 of the
//! content; for a folder, whose kind is `tree`, the digest of that folder. A folder without any file beneath does not
//! appear. The state hash is the digest of the workspace's root. Names hold neither `/` nor NUL, so no two states have
//! the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crealeph_contracts::digest::Blake3;

use crate::change::Change;
use crate::node::TreeNode;
use crate::path::TreePath;
use crate::tree::{Folder, What};

/// The hash of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateHash(Blake3);

impl StateHash {
    /// A hash computed elsewhere, as a receipt has it.
    pub fn from_digest(digest: Blake3) -> Self {
        StateHash(digest)
    }

    /// The digest, as receipts have it.
    pub fn digest(&self) -> Blake3 {
        self.0
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Two entries at one path: a file, and a folder with entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is a file and a folder at once; it changed while it was read, try again")]
pub struct FileAndFolder(pub String);

/// Everything in a workspace that counts.
#[derive(Clone, Debug)]
pub struct State {
    root: Arc<Folder>,
}

impl State {
    /// A state of these entries.
    ///
    /// # Errors
    /// If a path is a file and a folder at once.
    pub fn new(entries: BTreeMap<TreePath, TreeNode>) -> Result<Self, FileAndFolder> {
        let all: Vec<_> = entries.iter().map(|(path, node)| (path.as_str(), Some(node))).collect();
        Ok(State { root: Arc::new(Folder::default()).with("", &all)? })
    }

    pub(crate) fn of(root: Arc<Folder>) -> Self {
        State { root }
    }

    /// The state that these changes lead to.
    pub(crate) fn with(&self, changes: &[Change]) -> Result<Self, FileAndFolder> {
        let all: Vec<_> =
            changes.iter().map(|change| (change.path.as_str(), change.after.as_ref())).collect();
        Ok(State { root: self.root.with("", &all)? })
    }

    pub(crate) fn root(&self) -> &Arc<Folder> {
        &self.root
    }

    /// The state hash.
    pub fn hash(&self) -> StateHash {
        StateHash(self.root.digest())
    }

    /// The entry of a path.
    pub fn get(&self, path: &TreePath) -> Option<&TreeNode> {
        self.root.at(path.as_str())?.node()
    }

    /// Whether a file or link is at a path, or a folder with entries.
    pub fn holds(&self, path: &str) -> bool {
        match self.root.at(path) {
            None => false,
            Some(What::TreeNode(..)) => true,
            Some(What::Folder(folder)) => folder.len() > 0,
        }
    }

    /// The paths below a folder, sorted by their bytes.
    pub(crate) fn under(&self, folder: &str) -> BTreeSet<TreePath> {
        let mut paths = BTreeSet::new();
        if let Some(What::Folder(found)) = self.root.at(folder) {
            found.each(folder, &mut |path, _| paths.extend([path]));
        }
        paths
    }

    /// All paths with their entries, sorted by the paths' bytes. Computed on every call.
    pub fn entries(&self) -> BTreeMap<TreePath, TreeNode> {
        let mut all = Vec::with_capacity(self.len());
        self.root.each("", &mut |path, node| all.push((path, node.clone())));
        all.into_iter().collect()
    }

    /// How many files and links there are.
    pub fn len(&self) -> usize {
        self.root.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// States are the same if their hashes are.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for State {}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn state(entries: &[(&str, TreeNode)]) -> Result<State, FileAndFolder> {
        let entries = entries.iter().map(|(path, node)| (TreePath::parse(path).unwrap(), node.clone()));
        State::new(entries.collect())
    }

    fn file(content: &str, executable: bool) -> TreeNode {
        let size_bytes = content.len() as u64;
        TreeNode::File { digest: Blake3::of(content.as_bytes()), size_bytes, executable }
    }

    fn link(target: &str) -> TreeNode {
        TreeNode::Symlink { target: target.into() }
    }

    /// The definition, implemented a second time and in another way: folder by folder from the top.
    fn by_the_definition(entries: &[(&str, TreeNode)], folder: &str) -> Blake3 {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut lines = BTreeMap::new();
        for (path, node) in entries {
            let Some(inner) = path.strip_prefix(&prefix) else { continue };
            match inner.split_once('/') {
                Some((name, _)) => {
                    lines.insert(name, ("tree", by_the_definition(entries, &format!("{prefix}{name}"))));
                }
                None => {
                    lines.insert(inner, (node.word(), node.content_digest()));
                }
            }
        }
        let text: String =
            lines.iter().map(|(name, (word, digest))| format!("{word} {digest} {name}\0")).collect();
        Blake3::of(format!("crealeph-tree-v1\n{text}").as_bytes())
    }

    /// Computed by a program of fifteen lines in another language, from the definition above.
    #[test]
    fn golden_vectors() {
        let cases: [(&[(&str, TreeNode)], &str); 4] = [
            (&[], "5ea38b19775b0473459ace1528d87208b85b9cabfcd94098c874395662c28532"),
            (&[("a", file("", false))], "6595fe7db34c0438be634e1985a0553004fccf2726cc5e961df160ba0bb167ab"),
            (&[("a", file("", true))], "a3647affd54ae124968bb32a6e875b60894d109fc036ebe58a991c9b911d5ef4"),
            (
                &[
                    ("a-b", file("hello\n", false)),
                    ("a/b", file("hello\n", true)),
                    ("a/c/d", link("../b")),
                    ("a0", file("", false)),
                    ("ä/ö", file("\0\u{1}", false)),
                ],
                "6c21cbdf3683c52b70184af476057f9c36344936e73f30c8545d43ad016de3ad",
            ),
        ];
        for (entries, expected) in cases {
            assert_eq!(state(entries).unwrap().hash().to_string(), expected);
        }
    }

    #[test]
    fn names_are_sorted_within_their_folder_not_as_whole_paths() {
        let entries = [
            ("a", file("1", false)),
            ("b-c", file("2", false)),
            ("b/c/d/e", file("3", true)),
            ("b/c/f", link("d")),
            ("b0", file("4", false)),
            ("c/d", file("5", false)),
        ];
        assert_eq!(state(&entries).unwrap().hash().digest(), by_the_definition(&entries, ""));
    }

    #[test]
    fn every_part_of_a_state_is_in_its_hash() {
        let base = state(&[("d/a", file("x", false))]).unwrap().hash();
        for other in [
            state(&[("d/b", file("x", false))]),
            state(&[("e/a", file("x", false))]),
            state(&[("a", file("x", false))]),
            state(&[("d/a", file("y", false))]),
            state(&[("d/a", file("x", true))]),
            state(&[("d/a", link("x"))]),
            state(&[("d/a", file("x", false)), ("z", file("", false))]),
            state(&[]),
        ] {
            assert_ne!(other.unwrap().hash(), base);
        }
    }

    #[test]
    fn a_file_and_a_folder_of_one_name_are_refused() {
        for entries in [
            [("a", file("", false)), ("a/b", file("", false))],
            [("d/a", file("", false)), ("d/a/b", file("", false))],
        ] {
            let twice = entries[0].0.to_owned();
            assert_eq!(state(&entries), Err(FileAndFolder(twice)));
        }
        let apart = [("a", file("", false)), ("a-b", link("a")), ("a/b", file("", false))];
        assert!(state(&apart).is_err());
    }
}
