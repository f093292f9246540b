//! Where the user's own state is: what was trusted, which workspaces are the user's, views while they are open.

use std::path::{Path, PathBuf};

use crate::failure::TrustFailure;

/// The state directory of this program, `$XDG_STATE_HOME/crealeph` or `~/.local/state/crealeph`.
pub(crate) fn folder() -> Option<PathBuf> {
    let from =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    from("XDG_STATE_HOME")
        .map(|base| base.join("crealeph"))
        .or_else(|| from("HOME").map(|home| home.join(".local/state/crealeph")))
}

/// The same, if it is required.
pub(crate) fn needed() -> Result<PathBuf, TrustFailure> {
    folder().ok_or(TrustFailure::NoUserState)
}

/// Where a folder is that may not be there yet, without links.
pub(crate) fn real(folder: &Path) -> PathBuf {
    let there = folder.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = there else { return folder.to_owned() };
    folder.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest))
}
