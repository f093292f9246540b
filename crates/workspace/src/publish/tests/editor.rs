//! Someone saves a file at the worst moments, in every way that editors do: no edit is lost, and everything else is exactly
//! before or exactly after.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::node::TreeNode;
use crate::path::TreePath;
use crate::publish::fault::under_test::with_hook;
use crate::publish::{KeptPlace, PublishError};
use crate::state::State;
use crate::workspace::Workspace;

use super::scene::{Thing, Tree, capsule, files_under, quick_folder, state, write};

const EDIT: &str = "what somebody typed";

fn before() -> Tree {
    BTreeMap::from([
        ("first", Thing::File("1")),
        ("changed", Thing::File("old")),
        ("deleted", Thing::File("old")),
        ("last", Thing::File("1")),
    ])
}

fn after() -> Tree {
    BTreeMap::from([
        ("first", Thing::File("2")),
        ("changed", Thing::File("new")),
        ("created", Thing::File("new")),
        ("last", Thing::File("2")),
    ])
}

/// A way to save a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Truncate it and write.
    InPlace,
    /// Write another one and rename it over.
    Rename,
    /// Write to it through a descriptor that was opened long before.
    OpenedBefore,
    /// Remove it and write it again.
    RemoveAndWrite,
}

struct Editor {
    path: PathBuf,
    way: Way,
    opened: Option<File>,
}

impl Editor {
    fn new(path: PathBuf, way: Way) -> Self {
        let opened =
            (way == Way::OpenedBefore).then(|| OpenOptions::new().write(true).open(&path).ok()).flatten();
        Editor { path, way, opened }
    }

    fn save(&mut self) {
        match self.way {
            Way::InPlace => fs::write(&self.path, EDIT).unwrap(),
            Way::Rename => {
                let other = self.path.with_file_name(".crealeph").join("editor");
                fs::write(&other, EDIT).unwrap();
                fs::rename(&other, &self.path).unwrap();
            }
            Way::OpenedBefore => match &mut self.opened {
                Some(file) => {
                    file.set_len(0).unwrap();
                    file.write_all(EDIT.as_bytes()).unwrap();
                }
                None => fs::write(&self.path, EDIT).unwrap(),
            },
            Way::RemoveAndWrite => {
                let _ = fs::remove_file(&self.path);
                fs::write(&self.path, EDIT).unwrap();
            }
        }
    }
}

/// A state without one path.
fn without(state: &State, path: &str) -> BTreeMap<TreePath, TreeNode> {
    let mut entries = state.entries();
    entries.remove(&TreePath::parse(path).unwrap());
    entries
}

fn holds_edit(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text == EDIT)
}

/// Publishes while someone saves a file at one moment. Returns whether there was such a moment.
fn publish_with_edit(path: &'static str, way: Way, moment: usize) -> bool {
    let folder = quick_folder();
    write(folder.path(), &before());
    let workspace = Workspace::open(folder.path()).unwrap();
    let capsule = capsule(&workspace, &before(), &after());
    let mut editor = Editor::new(folder.path().join(path), way);
    let (mut points, saved) = (0, std::rc::Rc::new(std::cell::Cell::new(false)));
    let has_saved = std::rc::Rc::clone(&saved);
    let saves = move |_: &'static str| {
        points += 1;
        if points == moment {
            editor.save();
            has_saved.set(true);
        }
    };
    let (result, reports) = with_hook(saves, || {
        let result = workspace.prepare(&capsule).and_then(|prepared| prepared.publish());
        // The first recovers; the second clears the displaced files.
        let reports = [workspace.recover().unwrap(), workspace.recover().unwrap()].concat();
        (result, reports)
    });
    // The editor has closed its file now. A process that another test starts may have it for a moment longer.
    let mut reports = reports;
    while !files_under(&folder.path().join(".crealeph/publish")).is_empty() {
        reports.extend(workspace.recover().unwrap());
    }
    let said = format!("{path} {way:?} at {moment}: {result:?} {reports:?}");
    let now = workspace.snapshot().unwrap();
    let expected = if result.is_ok() { state(&after()) } else { state(&before()) };
    assert_eq!(without(now.state(), path), without(&expected, path), "{said}");
    if !saved.get() {
        assert!(result.is_ok() && now.state() == &state(&after()), "{said}");
        return false;
    }
    let kept = files_under(&folder.path().join(".crealeph/kept"));
    let in_place = holds_edit(&folder.path().join(path));
    assert!(in_place || kept.iter().any(|file| holds_edit(file)), "the edit is lost: {said}");
    // A kept file is reported, by a conflict or by recovery.
    let mut places: Vec<KeptPlace> =
        reports.into_iter().flat_map(|settled| settled.kept).map(|kept| kept.place).collect();
    if let Err(PublishError::Conflict { kept, .. }) = result {
        places.extend(kept.into_iter().map(|kept| kept.place));
    }
    for file in kept {
        assert!(
            places.contains(&KeptPlace::Beside(file.clone())),
            "{} is not reported: {said}",
            file.display()
        );
    }
    true
}

fn at_every_moment(path: &'static str, way: Way) {
    let moments = (1..).take_while(|moment| publish_with_edit(path, way, *moment)).count();
    assert!(moments > 30, "only {moments} moments");
}

#[test]
// holds: invariant 12
fn no_save_in_place_is_lost() {
    ["changed", "deleted", "created"].into_iter().for_each(|path| at_every_moment(path, Way::InPlace));
}

#[test]
// holds: invariant 12
fn no_save_by_renaming_is_lost() {
    ["changed", "deleted", "created"].into_iter().for_each(|path| at_every_moment(path, Way::Rename));
}

#[test]
fn no_save_through_an_open_file_is_lost() {
    ["changed", "deleted"].into_iter().for_each(|path| at_every_moment(path, Way::OpenedBefore));
}

#[test]
fn no_save_after_removing_is_lost() {
    ["changed", "deleted", "created"].into_iter().for_each(|path| at_every_moment(path, Way::RemoveAndWrite));
}

#[test]
fn a_save_elsewhere_is_merged() {
    let folder = quick_folder();
    write(folder.path(), &before());
    fs::write(folder.path().join("other"), "1").unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let capsule = capsule(&workspace, &before(), &after());
    let prepared = workspace.prepare(&capsule).unwrap();
    fs::write(folder.path().join("other"), EDIT).unwrap();
    prepared.publish().map(drop).unwrap();
    assert!(holds_edit(&folder.path().join("other")));
    let now = workspace.snapshot().unwrap();
    assert_eq!(without(now.state(), "other"), state(&after()).entries());
}
