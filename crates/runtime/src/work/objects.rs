//! Git's objects, for the store of a workspace: which blobs the current commit has, and what is in them. Writes nothing, starts
//! no program, and fetches nothing.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crealeph_contracts::digest::GitHash;
use crealeph_workspace::GitObjects;
use gix_hash::ObjectId;
use gix_object::{Exists as _, Find as _, Kind};

use super::error::WorkError;
use super::git::{self, Objects, Repository};

/// The objects of the repository that a workspace is in; nothing is found if it is in none, or in one that cannot be used.
pub(super) fn of(workspace: &Path) -> GitObjects {
    let root = workspace.to_owned();
    let opened = Repository::open(workspace).ok().flatten();
    // What is in an object never changes, so one handle serves all reads.
    let reading = opened.map(|repository| Mutex::new(repository.objects));
    GitObjects {
        find: Box::new(move |paths| find(&root, paths).ok().flatten().unwrap_or_default()),
        read: Box::new(move |blob| match &reading {
            Some(objects) => read(&objects.lock().unwrap_or_else(PoisonError::into_inner), blob),
            None => Ok(None),
        }),
    }
}

/// The blobs of the current commit at some paths, as far as the repository has them.
fn find(root: &Path, paths: &[&str]) -> Result<Option<Vec<(String, GitHash)>>, WorkError> {
    let Some(repository) = Repository::open(root)? else { return Ok(None) };
    let Some(head) = repository.head()? else { return Ok(None) };
    let tree = repository.tree_of(&head)?;
    let Some(prefix) = repository.place.prefix(root).to_str() else { return Ok(None) };
    let inside =
        |path: &&str| if prefix.is_empty() { (*path).to_owned() } else { format!("{prefix}/{path}") };
    let full: Vec<String> = paths.iter().map(inside).collect();
    let entries = git::entries_at(&repository.objects, &tree, full.iter().map(String::as_str))?;
    let mut found = Vec::new();
    for (path, full) in paths.iter().zip(&full) {
        let Some(entry) = entries.get(full.as_str()) else { continue };
        // A partial clone names more than it holds.
        if entry.mode.is_blob_or_symlink() && repository.objects.exists(&entry.id) {
            found.push(((*path).to_owned(), git::git_hash(&entry.id)?));
        }
    }
    Ok(Some(found))
}

fn read(objects: &Objects, blob: &GitHash) -> io::Result<Option<Vec<u8>>> {
    // One of 64 digits is of another object format.
    let Ok(id) = ObjectId::from_hex(blob.as_str().as_bytes()) else { return Ok(None) };
    let mut bytes = Vec::new();
    let found = objects.try_find(&id, &mut bytes).map_err(io::Error::other)?;
    match found.map(|data| data.kind) {
        None => Ok(None),
        Some(Kind::Blob) => Ok(Some(bytes)),
        Some(kind) => Err(io::Error::other(format!("the git object `{id}` is a {kind}, not a blob"))),
    }
}
