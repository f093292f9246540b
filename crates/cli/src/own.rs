//! The check that every `.crealeph` must pass before anything in it is opened: this user owns it.

use std::path::{Path, PathBuf};

use crealeph_workspace::Registry;

use crate::failure::TrustFailure;
use crate::user_state;

/// Where a workspace keeps its own files.
pub(crate) const CONTROL: &str = ".crealeph";

/// Checks the `.crealeph` of a folder, if there is one.
pub(crate) fn check(workspace: &Path) -> Result<(), TrustFailure> {
    if std::fs::symlink_metadata(workspace.join(CONTROL)).is_err() {
        return Ok(());
    }
    registry()?.check(workspace)?;
    Ok(())
}

/// Checks it, and creates one if it is missing.
pub(crate) fn claim(workspace: &Path) -> Result<(), TrustFailure> {
    Ok(registry()?.claim(workspace)?)
}

pub(crate) fn registry() -> Result<Registry, TrustFailure> {
    Ok(Registry::open(&user_state::needed()?)?)
}

/// The folders whose `.crealeph` a path leads through, outermost first.
pub(crate) fn workspaces_of(path: &Path) -> Vec<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folders = path.ancestors().filter(|folder| folder.file_name().is_some_and(|name| name == CONTROL));
    let mut found: Vec<PathBuf> = folders
        .filter_map(Path::parent)
        // The folder is known by its real path; `.crealeph` itself is never followed.
        .map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()))
        .collect();
    found.reverse();
    found
}
