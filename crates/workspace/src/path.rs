//! Paths in a workspace's state. Owns the one written form of a path; refuses one that could mean another file, leave
//! the workspace, or be in `.git` or `.crealeph`, which belong to no state.

use std::fmt;

use crealeph_contracts::work_item::WorkspacePath;

/// The names that are never part of a state, at any depth (R26).
pub(crate) const OUTSIDE_NAMES: [&str; 2] = [GIT, CONTROL];
/// Git's own folder, or the file that points to it.
pub(crate) const GIT: &str = ".git";
/// The folder this crate keeps its own files in.
pub(crate) const CONTROL: &str = ".crealeph";

/// The longest path in bytes: the limit of a system call.
const MAX_PATH_BYTES: usize = 4095;

/// A file's path relative to the workspace: names joined by `/`, none of them empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreePath(WorkspacePath);

/// Why a path cannot be in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It is empty, absolute, or has an empty, `.` or `..` name.
    #[error("is not a plain relative path; name the file by its folders, joined by `/`")]
    NotPlain,
    /// It is `.git` or `.crealeph`, or is inside one.
    #[error("is in `.git` or `.crealeph`, which are not part of a workspace's state")]
    Outside,
    /// It is longer than the system allows.
    #[error("is longer than 4095 bytes; shorten it")]
    TooLong,
    /// It has a NUL, or only white space.
    #[error("has a name that no receipt can contain (a NUL, or only white space); rename it")]
    Unspeakable,
}

impl TreePath {
    /// Accepts a path in its one written form.
    ///
    /// # Errors
    /// If the path is in another form, or is in `.git` or `.crealeph`.
    pub fn parse(path: &str) -> Result<Self, PathFault> {
        if path.len() > MAX_PATH_BYTES {
            return Err(PathFault::TooLong);
        }
        for name in path.split('/') {
            if matches!(name, "" | "." | "..") {
                return Err(PathFault::NotPlain);
            }
            if OUTSIDE_NAMES.contains(&name) {
                return Err(PathFault::Outside);
            }
        }
        WorkspacePath::parse(path).map(TreePath).ok_or(PathFault::Unspeakable)
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The path as receipts and work items hold it.
    pub fn as_workspace_path(&self) -> &WorkspacePath {
        &self.0
    }

    /// Its folder, empty for the workspace itself, and its name there.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.as_str().rsplit_once('/').unwrap_or(("", self.as_str()))
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `folder/name`, or `name` alone if the folder is the workspace itself.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Every folder above a path, nearest first, without the workspace itself.
pub(crate) fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/'))
        .map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_accepted() {
        for good in ["a", "a/b.c", "ä/ö", " a", "a b", "a\nb", "..a", ".gitignore", "a/.github/b"] {
            assert_eq!(TreePath::parse(good).as_ref().map(TreePath::as_str), Ok(good));
        }
        let bad = [
            ("", PathFault::NotPlain),
            ("/a", PathFault::NotPlain),
            ("a/", PathFault::NotPlain),
            ("a//b", PathFault::NotPlain),
            ("./a", PathFault::NotPlain),
            ("a/../b", PathFault::NotPlain),
            (".git", PathFault::Outside),
            ("a/.git/hooks/x", PathFault::Outside),
            (".crealeph/x", PathFault::Outside),
            ("a\0", PathFault::Unspeakable),
            (" ", PathFault::Unspeakable),
        ];
        for (path, fault) in bad {
            assert_eq!(TreePath::parse(path), Err(fault), "{path:?}");
        }
        assert_eq!(TreePath::parse(&"a".repeat(4096)), Err(PathFault::TooLong));
        assert!(TreePath::parse(&"a".repeat(4095)).is_ok());
    }

    #[test]
    fn the_folders_above_a_path() {
        assert_eq!(folders_above("a/b/c").collect::<Vec<_>>(), ["a/b", "a"]);
        assert_eq!(folders_above("a").count(), 0);
    }
}
