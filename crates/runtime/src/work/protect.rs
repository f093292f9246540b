//! Which paths of a workspace no run may change: files that define grants, and every folder and link on the path to
//! them. Owns following that path as the kernel would; `decision` decides whether a change is denied.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crealeph_decision::work::ProtectedPaths;

use crate::configuration::FILE;

/// Where the program keeps its own files.
const CONTROL: &str = ".crealeph";
/// How many links the kernel follows.
const MAX_LINKS: usize = 40;

/// What is protected in the workspace `root`: any configuration, `sources` with the way to them, and all beneath `folders`.
pub(super) fn protected(root: &Path, sources: &[PathBuf], folders: &[PathBuf]) -> ProtectedPaths {
    let mut protected = ProtectedPaths::default();
    protected.add_name(FILE);
    // In its own spelling no state has it; in another one it is the same folder if case is ignored.
    protected.add_name(CONTROL);
    for step in sources.iter().flat_map(|path| steps(path)) {
        if let Some(path) = inside(root, &step) {
            protected.add_path(&path);
        }
    }
    for folder in folders {
        for step in steps(folder) {
            if let Some(path) = inside(root, &step) {
                protected.add_path(&path);
            }
        }
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        for folder in [folder, &real] {
            if let Some(path) = inside(root, folder) {
                protected.add_folder(&path);
            }
        }
    }
    protected
}

fn inside(root: &Path, path: &Path) -> Option<String> {
    let path = path.strip_prefix(root).ok()?;
    // A state holds no path that is not UTF-8.
    path.to_str().filter(|path| !path.is_empty()).map(str::to_owned)
}

/// Every path that is looked at when this one is opened: folders, links, what links lead to, and the end.
fn steps(path: &Path) -> Vec<PathBuf> {
    let mut ahead: VecDeque<OsString> = names(path).collect();
    let (mut at, mut links, mut seen) = (PathBuf::from("/"), 0, Vec::new());
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        seen.push(next.clone());
        match std::fs::read_link(&next) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                names(&target).rev().for_each(|name| ahead.push_front(name));
            }
            _ => at = next,
        }
    }
    seen
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_way_to_a_file_is_protected_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("ws");
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/agent.py"), "").unwrap();
        symlink("../ws/real", root.join("alias")).unwrap();
        symlink("alias/deep/agent.py", root.join("agent")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let sources = [root.join("agent"), root.join("absent/tool"), root.join("loop")];
        let protected = protected(&root, &sources, &[root.join("state")]);
        for path in [
            "agent",
            "alias",
            "real",
            "real/deep",
            "real/deep/agent.py",
            "absent",
            "absent/tool",
            "loop",
            "state",
            "state/x",
            "sub/crealeph.toml",
            ".CreAleph/id",
        ] {
            assert!(protected.holds(path), "{path}");
        }
        for path in ["real/deep/other.py", "real/x", "alias2", "absent/x"] {
            assert!(!protected.holds(path), "{path}");
        }
    }
}
