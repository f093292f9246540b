//! Paths of a directory that a view does not show. Owns the layer of whiteouts that hides them,
//! which an overlay reads as "there is nothing here"; refuses a path that leads through a symbolic link,
//! since the file would still be there under its own name.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::make_directory;
use crate::error::SandboxError;

const MAX_HIDDEN: usize = 1 << 16;

/// Hidden paths, relative to the directory, none of them inside another.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    paths: BTreeSet<PathBuf>,
}

impl Hidden {
    /// Keeps the paths that can exist: a path without a parent directory in `lower` needs no hiding.
    pub(crate) fn new(lower: &Path, paths: &[PathBuf]) -> Result<Self, SandboxError> {
        let invalid = |what: String| Err(SandboxError::InvalidSpec { what });
        if paths.len() > MAX_HIDDEN {
            return invalid(format!(
                "more than {MAX_HIDDEN} paths of `{}` are hidden; hide the directories they are in",
                lower.display()
            ));
        }
        let mut hidden = Self::default();
        // Sorted, so that a directory comes before its entries.
        for path in paths.iter().collect::<BTreeSet<_>>() {
            if path.as_os_str().is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_))) {
                return invalid(format!(
                    "the hidden path `{}` is not relative to the view or holds `.` or `..`; write it out",
                    path.display()
                ));
            }
            if path.ancestors().any(|parent| hidden.covers(parent)) {
                continue;
            }
            match parents_are_directories(lower, path) {
                Ok(true) => {
                    hidden.paths.insert(path.clone());
                }
                Ok(false) => {}
                Err(source) => {
                    return Err(SandboxError::Path { action: "hide", path: lower.join(path), source });
                }
            }
        }
        Ok(hidden)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn covers(&self, path: &Path) -> bool {
        self.paths.contains(path)
    }

    /// Creates the layer at `layer`, whose directories are like those of `lower`.
    pub(super) fn make_layer(&self, lower: &Path, layer: &Path, ids: Option<(u32, u32)>) -> io::Result<()> {
        make_directory(layer, 0o700, ids)?;
        let mut made = BTreeSet::from([PathBuf::new()]);
        for path in &self.paths {
            let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
            parents.reverse();
            for parent in parents {
                if made.insert(parent.to_path_buf()) {
                    make_directory(&layer.join(parent), 0o700, ids)?;
                }
            }
            mknodat(CWD, layer.join(path), FileType::CharacterDevice, Mode::empty(), 0)?;
        }
        // Only now, children first, since a directory may not be writable.
        for path in made.iter().rev() {
            let mode = std::fs::metadata(lower.join(path))?.permissions().mode() & 0o7777;
            std::fs::set_permissions(layer.join(path), Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

fn parents_are_directories(lower: &Path, path: &Path) -> io::Result<bool> {
    for parent in path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
        match std::fs::symlink_metadata(lower.join(parent)) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if metadata.is_symlink() => return Err(io::Error::from_raw_os_error(libc::ELOOP)),
            Ok(_) => return Ok(false),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
