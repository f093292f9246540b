//! Contents that a run left and that the store does not have yet. Owns where they are found meanwhile: in the view itself, so
//! that nothing is copied for a change that does not land.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};

use crealeph_contracts::digest::Blake3;

use crate::capsule::Capsule;
use crate::control::{Control, ControlError, failed};
use crate::rooted::Root;
use crate::store::{Source, StoreError};
use crate::workspace::Workspace;

/// Contents by their digest, and the path of each below a root.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) root: Root,
    pub(crate) paths: BTreeMap<Blake3, Box<str>>,
}

/// Files added to `.crealeph` for a change that may still fail to land.
#[derive(Debug, Default)]
pub struct Added {
    /// In the order in which they have to be removed again.
    paths: Vec<PathBuf>,
}

impl Added {
    pub(crate) fn push(&mut self, path: PathBuf) {
        self.paths.push(path);
    }

    /// Adds later files.
    pub fn extend(&mut self, later: Added) {
        // A manifest is removed before the contents that it names.
        self.paths.splice(0..0, later.paths);
    }
}

impl Control {
    /// Makes contents available through the store as long as the value lives.
    pub(crate) fn stage(&self, staged: &Arc<Staged>) {
        let mut all = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(staged));
    }

    /// A content that is staged, open, and where it is.
    pub(crate) fn staged(&self, digest: &Blake3) -> Option<(File, PathBuf)> {
        let all = self.staged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).find_map(|staged| {
            let path = staged.paths.get(digest)?;
            Some((staged.root.file(path).ok()?, staged.root.at(path)))
        })
    }
}

impl Workspace {
    /// Puts the contents of a change into the store; durable when this returns. Returns what was added.
    ///
    /// # Errors
    /// If a content cannot be read or stored, or has changed.
    pub fn keep_contents(&self, capsule: &Capsule) -> Result<Added, StoreError> {
        let store = self.store();
        let mut added = Added::default();
        let Some(staged) = capsule.staged() else { return Ok(added) };
        let missing = staged.paths.iter().filter(|(digest, _)| !store.has_copy(digest));
        let sources: Vec<Source<'_>> = missing
            .map(|(digest, path)| Source { root: &staged.root, path, expected: Some(*digest) })
            .collect();
        for (digest, _) in store.put_files(&sources)? {
            added.push(store.path(&digest));
        }
        Ok(added)
    }

    /// Removes the files that were added for a change that did not land. No one may keep a state meanwhile.
    ///
    /// # Errors
    /// If something cannot be removed; the next cleaning removes it.
    pub fn take_back(&self, added: Added) -> Result<(), ControlError> {
        for path in added.paths {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
