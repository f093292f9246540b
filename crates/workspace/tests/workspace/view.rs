//! A copy of a workspace that acts as a copy-on-write view: changed by a test, then compared file by file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crealeph_workspace::ViewChanges;

use crate::place::Place;

pub(crate) struct View {
    pub(crate) place: Place,
}

impl View {
    /// A view of a workspace as it is now, without `.crealeph`.
    pub(crate) fn of(place: &Place) -> View {
        let view = View { place: Place::new() };
        copy(place.path(), view.place.path());
        view
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.place.at(path);
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }

    /// The differences from the workspace.
    pub(crate) fn changes(&self, place: &Place) -> ViewChanges {
        let mut changes = ViewChanges { folder: self.place.path().to_owned(), ..ViewChanges::default() };
        compare(place.path(), self.place.path(), Path::new(""), &mut changes);
        changes
    }
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name != ".crealeph");
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        let metadata = fs::symlink_metadata(&from).unwrap();
        if metadata.is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&from, &to);
            fs::set_permissions(&to, metadata.permissions()).unwrap();
        } else if metadata.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else if metadata.is_file() {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// A file's kind, executable bit and content.
fn look(path: &Path) -> Option<(u32, Vec<u8>)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let kind = metadata.mode() & 0o170_000;
    Some(if metadata.is_file() {
        (kind | metadata.permissions().mode() & 0o6100, fs::read(path).unwrap())
    } else if metadata.is_symlink() {
        (kind, fs::read_link(path).unwrap().into_os_string().into_encoded_bytes())
    } else {
        (kind, Vec::new())
    })
}

fn compare(before: &Path, after: &Path, inner: &Path, changes: &mut ViewChanges) {
    let (old, new) = (before.join(inner), after.join(inner));
    let mut all: Vec<PathBuf> =
        names(&old).into_iter().chain(names(&new)).map(|name| inner.join(name)).collect();
    all.sort();
    all.dedup();
    for path in all {
        let (was, is) = (look(&before.join(&path)), look(&after.join(&path)));
        let is_folder =
            |look: &Option<(u32, Vec<u8>)>| look.as_ref().is_some_and(|(kind, _)| *kind == 0o040_000);
        match (&was, &is) {
            (Some(_), None) => changes.gone.push(path.clone()),
            (None, Some(_)) => changes.present.push(path.clone()),
            _ if was != is => {
                if is_folder(&was) || is_folder(&is) {
                    changes.gone.push(path.clone());
                }
                changes.present.push(path.clone());
            }
            _ => {}
        }
        if is_folder(&is) {
            compare(before, after, &path, changes);
        }
    }
}
