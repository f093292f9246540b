//! A small workspace and a change of every kind, to be interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Blake3;

use crate::capsule::Capsule;
use crate::change::changes_between;
use crate::node::TreeNode;
use crate::path::TreePath;
use crate::state::State;
use crate::workspace::Workspace;

/// A file, an executable one, or a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Thing {
    File(&'static str),
    Exec(&'static str),
    Link(&'static str),
}

pub(super) type Tree = BTreeMap<&'static str, Thing>;

/// Every kind of change of a path, in two trees.
pub(super) fn before() -> Tree {
    BTreeMap::from([
        ("content", Thing::File("one\n")),
        ("mode", Thing::File("same\n")),
        ("gone", Thing::File("old\n")),
        ("emptied/deep/a", Thing::File("")),
        ("emptied/deep/b", Thing::Link("a")),
        ("folder/x", Thing::File("x")),
        ("folder/y/z", Thing::File("z")),
        ("file", Thing::File("f")),
        ("link", Thing::Link("content")),
        ("kind", Thing::File("k")),
        ("read-only", Thing::File("r")),
        ("untouched/u", Thing::File("u")),
    ])
}

pub(super) fn after() -> Tree {
    BTreeMap::from([
        ("content", Thing::File("two\n")),
        ("mode", Thing::Exec("same\n")),
        ("new/deep/er/file", Thing::File("new\n")),
        ("new/empty", Thing::File("")),
        ("folder", Thing::File("no longer a folder")),
        ("file/inside", Thing::Exec("no longer a file")),
        ("link", Thing::Link("mode")),
        ("kind", Thing::Link("content")),
        ("read-only", Thing::File("changed")),
        ("untouched/u", Thing::File("u")),
    ])
}

pub(super) fn write(folder: &Path, tree: &Tree) {
    for (path, thing) in tree {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match thing {
            Thing::File(text) => fs::write(&path, text).unwrap(),
            Thing::Exec(text) => {
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            Thing::Link(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
        }
    }
    let read_only = folder.join("read-only");
    if read_only.exists() {
        fs::set_permissions(read_only, fs::Permissions::from_mode(0o444)).unwrap();
    }
}

pub(super) fn state(tree: &Tree) -> State {
    let entries = tree.iter().map(|(path, thing)| {
        let file = |text: &str, executable| TreeNode::File {
            digest: Blake3::of(text.as_bytes()),
            size_bytes: text.len() as u64,
            executable,
        };
        let node = match thing {
            Thing::File(text) => file(text, false),
            Thing::Exec(text) => file(text, true),
            Thing::Link(target) => TreeNode::Symlink { target: (*target).into() },
        };
        (TreePath::parse(path).unwrap(), node)
    });
    State::new(entries.collect()).unwrap()
}

/// The change from one tree to another, its contents in the store.
pub(super) fn capsule(workspace: &Workspace, from: &Tree, to: &Tree) -> Capsule {
    for thing in to.values() {
        if let Thing::File(text) | Thing::Exec(text) = thing {
            workspace.store().put(text.as_bytes()).unwrap();
        }
    }
    let (from, to) = (state(from), state(to));
    Capsule::of_changes(&from, changes_between(&from, &to)).unwrap()
}

/// A folder where syncing costs nothing, if there is one, for tests that publish a thousand times.
pub(super) fn quick_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// All files under a folder.
pub(super) fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => files.extend(files_under(&path)),
            false => files.push(path),
        }
    }
    files
}
