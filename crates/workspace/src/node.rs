//! An entry of a state: a file with its content and executable bit, or a symbolic link. Owns the rule which
//! links stay inside the workspace.

use std::os::unix::ffi::OsStrExt;

use crealeph_contracts::digest::Blake3;

/// The entry of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeNode {
    /// A regular file.
    File {
        /// The BLAKE3 of its content.
        digest: Blake3,
        /// Its length.
        size_bytes: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, as it is written.
        target: Box<str>,
    },
}

impl TreeNode {
    /// The BLAKE3 of the content: a file's bytes, or a link's target as it is written.
    pub fn content_digest(&self) -> Blake3 {
        match self {
            TreeNode::File { digest, .. } => *digest,
            TreeNode::Symlink { target } => Blake3::of(target.as_bytes()),
        }
    }

    /// The state hash's word for the kind: `file`, `exec` or `link`.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            TreeNode::File { executable: false, .. } => "file",
            TreeNode::File { executable: true, .. } => "exec",
            TreeNode::Symlink { .. } => "link",
        }
    }
}

/// Whether a link at `path` surely stays inside the workspace: its target is relative, goes up no further than the
/// workspace, and goes up only at its start. Folders above `path` are real ones, so `..` at the start means
/// what it says; after a name, `..` may start from wherever that name leads, so it is refused.
pub(crate) fn stays_inside(path: &str, target: &str) -> bool {
    let mut depth = path.split('/').count() - 1;
    let mut has_named = false;
    if target.is_empty() || target.starts_with('/') {
        return false;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if has_named => return false,
            ".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return false,
            },
            _ => has_named = true,
        }
    }
    true
}

/// The text of a link's target, if it is text.
pub(crate) fn target_text(target: &std::ffi::CStr) -> Option<Box<str>> {
    let bytes = std::ffi::OsStr::from_bytes(target.to_bytes());
    bytes.to_str().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_stay_inside() {
        for (path, target) in [
            ("l", "a"),
            ("l", "a/b"),
            ("l", "./a"),
            ("l", "."),
            ("l", "a//b/"),
            ("d/l", "../a"),
            ("d/e/l", "../../a/b"),
            ("d/l", ".."),
            ("d/l", "..//"),
            ("l", "l"),
            ("l", "..a"),
        ] {
            assert!(stays_inside(path, target), "{path} -> {target}");
        }
        for (path, target) in [
            ("l", "/etc/passwd"),
            ("l", ".."),
            ("l", "../a"),
            ("d/l", "../../a"),
            ("d/l", ".././../a"),
            ("l", "a/../b"),
            ("d/e/l", "x/../../../../etc"),
            ("l", ""),
            ("d/l", "..//../x"),
        ] {
            assert!(!stays_inside(path, target), "{path} -> {target}");
        }
    }
}
