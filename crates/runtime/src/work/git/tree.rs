//! Trees of commits: what is at a path, what differs between two, and a tree with some paths changed. Owns the order of these
//! steps; refuses more differences than requested.

use std::collections::{BTreeMap, BTreeSet};

use gix_hash::ObjectId;
use gix_object::bstr::{BStr, ByteSlice as _};
use gix_object::tree::{Editor, EntryMode};
use gix_object::{Kind, Tree, TreeRef, Write as _};

use super::super::error::WorkError;
use super::{HASH, Objects, failed, object, refused};

/// The deepest tree that is looked into.
const MAX_DEPTH: usize = 512;

/// What a tree has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Entry {
    pub(in super::super) mode: EntryMode,
    pub(in super::super) id: ObjectId,
}

type Listed = BTreeMap<Vec<u8>, Entry>;

fn list(objects: &Objects, tree: &ObjectId) -> Result<Listed, WorkError> {
    let bytes = object(objects, tree, Kind::Tree)?;
    let parsed =
        TreeRef::from_bytes(&bytes, HASH).map_err(|error| failed(format!("read tree `{tree}`"), &error))?;
    let entries = parsed.entries.iter().map(|entry| {
        (entry.filename.as_bytes().to_vec(), Entry { mode: entry.mode, id: entry.oid.to_owned() })
    });
    Ok(entries.collect())
}

/// What a tree has at a path.
pub(in super::super) fn entry_at(
    objects: &Objects,
    tree: &ObjectId,
    path: &str,
) -> Result<Option<Entry>, WorkError> {
    Ok(entries_at(objects, tree, std::iter::once(path))?.remove(path))
}

/// What a tree has at some paths; each folder is read once.
pub(in super::super) fn entries_at<'p>(
    objects: &Objects,
    tree: &ObjectId,
    paths: impl Iterator<Item = &'p str>,
) -> Result<BTreeMap<&'p str, Entry>, WorkError> {
    let mut folders: BTreeMap<&str, Option<Listed>> = BTreeMap::from([("", Some(list(objects, tree)?))]);
    let mut found = BTreeMap::new();
    for path in paths {
        let slashes = path.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
        let mut above = "";
        let mut start = 0;
        for end in slashes {
            let (Some(folder), Some(name)) = (path.get(..end), path.get(start..end)) else { break };
            if !folders.contains_key(folder) {
                let entry =
                    folders.get(above).and_then(Option::as_ref).and_then(|list| list.get(name.as_bytes()));
                let listed = match entry {
                    Some(entry) if entry.mode.is_tree() => Some(list(objects, &entry.id)?),
                    _ => None,
                };
                folders.insert(folder, listed);
            }
            (above, start) = (folder, end + 1);
        }
        let name = path.get(start..).unwrap_or_default();
        let listed = folders.get(above).and_then(Option::as_ref);
        if let Some(entry) = listed.and_then(|listed| listed.get(name.as_bytes())) {
            found.insert(path, *entry);
        }
    }
    Ok(found)
}

/// Writes a tree that is `base` with some paths other (or gone).
pub(in super::super) fn write_tree<'p>(
    objects: &Objects,
    base: &ObjectId,
    changes: impl Iterator<Item = (&'p str, Option<Entry>)> + Clone,
) -> Result<ObjectId, WorkError> {
    let action = "write a tree";
    let bytes = object(objects, base, Kind::Tree)?;
    let root = TreeRef::from_bytes(&bytes, HASH).map_err(|error| failed(action, &error))?;
    let mut editor = Editor::new(Tree::from(root), objects, HASH);
    let names = |path: &'p str| path.split('/').map(BStr::new);
    // What goes makes room for what comes: a file where a folder was, or the reverse.
    for (path, _) in changes.clone().filter(|(_, entry)| entry.is_none()) {
        editor.remove_if_leaf(names(path)).map_err(|error| failed(action, &error))?;
    }
    for (path, entry) in changes {
        if let Some(entry) = entry {
            editor
                .upsert(names(path), entry.mode.kind(), entry.id)
                .map_err(|error| failed(action, &error))?;
        }
    }
    editor.write(|tree| objects.write(tree)).map_err(|error| failed(action, &error))
}

/// What differs between two trees, with what the second has; subtrees that are the same are not looked into.
pub(in super::super) fn tree_changes(
    objects: &Objects,
    before: &ObjectId,
    after: &ObjectId,
    max: usize,
) -> Result<BTreeMap<Vec<u8>, Option<Entry>>, WorkError> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(Vec::new(), Some(*before), Some(*after))];
    while let Some((prefix, before, after)) = folders.pop() {
        if prefix.iter().filter(|byte| **byte == b'/').count() > MAX_DEPTH {
            return Err(refused("compare trees", format!("they are more than {MAX_DEPTH} folders deep")));
        }
        let listed = |tree: Option<ObjectId>| tree.map(|tree| list(objects, &tree)).transpose();
        let (old, new) = (listed(before)?.unwrap_or_default(), listed(after)?.unwrap_or_default());
        for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let (old, new) = (old.get(name).copied(), new.get(name).copied());
            if old == new {
                continue;
            }
            let path = [prefix.as_slice(), name].concat();
            let tree =
                |entry: Option<Entry>| entry.filter(|entry| entry.mode.is_tree()).map(|entry| entry.id);
            if tree(old).is_some() || tree(new).is_some() {
                folders.push(([path.as_slice(), b"/"].concat(), tree(old), tree(new)));
            }
            let leaf = |entry: Option<Entry>| entry.filter(|entry| !entry.mode.is_tree());
            if leaf(old) != leaf(new) {
                found.insert(path, leaf(new));
            }
            if found.len() > max {
                return Err(refused("compare trees", format!("more than {max} files differ")));
            }
        }
    }
    Ok(found)
}
