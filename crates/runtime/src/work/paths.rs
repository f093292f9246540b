//! The paths that a work item names (R25): relative to the workspace, or absolute inside it. Owns their one written form;
//! refuses a path that is elsewhere.

use std::path::Path;

use crealeph_contracts::WorkItem;
use crealeph_contracts::shape::List;
use crealeph_contracts::work_item::WorkspacePath;
use crealeph_workspace::State;

use crate::configuration::absolute;

/// A path of an item that is not in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item `{item}` names `{path}`, which is not in the workspace `{workspace}`; name a path inside it")]
pub struct OutsideWorkspace {
    /// The item.
    pub item: String,
    /// The path.
    pub path: String,
    /// The workspace.
    pub workspace: String,
}

/// The paths of a list, relative to the workspace and without `.` and `..`.
pub(super) fn relative<'p>(
    files: Option<&'p List<WorkspacePath>>,
    workspace: &Path,
) -> impl Iterator<Item = Result<String, &'p str>> {
    files.map_or(&[][..], List::as_slice).iter().map(move |path| {
        let whole = absolute(workspace, path.as_str());
        let inside = whole.strip_prefix(workspace).ok().and_then(Path::to_str);
        inside.map(str::to_owned).ok_or_else(|| path.as_str())
    })
}

/// Checks that everything an item names is in the workspace.
pub(super) fn check(item: &WorkItem, workspace: &Path) -> Result<(), OutsideWorkspace> {
    let all =
        relative(item.input_files.as_ref(), workspace).chain(relative(item.output_files.as_ref(), workspace));
    match all.into_iter().find_map(Result::err) {
        None => Ok(()),
        Some(path) => Err(OutsideWorkspace {
            item: item.id.to_string(),
            path: path.to_owned(),
            workspace: workspace.display().to_string(),
        }),
    }
}

/// The paths that a state has nothing at: neither a file, nor a folder with something in it.
pub(super) fn missing(
    files: Option<&List<WorkspacePath>>,
    workspace: &Path,
    state: &State,
    is_there: impl Fn(&str) -> bool,
) -> Vec<String> {
    let named = relative(files, workspace).filter_map(Result::ok);
    named.filter(|path| !path.is_empty() && !state.holds(path) && !is_there(path)).collect()
}
