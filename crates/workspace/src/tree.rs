//! Folders as a state has them: names with their entries, and the folder's digest (R26). Folders are shared, between
//! states and with the cache: a change creates new ones only on the path to what it changes.
//!
//! In addition to its part of the state, a folder that was read from files records the facts that show that it is unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use crealeph_contracts::digest::Blake3;

use crate::cache::Identity;
use crate::change::Change;
use crate::node::TreeNode;
use crate::path::{TreePath, join};
use crate::state::FileAndFolder;

const HEADER: &[u8] = b"crealeph-tree-v1\n";

/// A folder. One without a file below may be here, but is not part of a state.
#[derive(Debug)]
pub(crate) struct Folder {
    digest: Blake3,
    /// Files and links in it and below.
    len: usize,
    /// Sorted by name, each name once.
    entries: Vec<Entry>,
    listed: Option<Listed>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Box<str>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A file or link and, if it may be cached, the facts that show that it is unchanged.
    TreeNode(TreeNode, Option<Identity>),
    Folder(Arc<Folder>),
}

/// The facts that show that a folder has the same names, and that all of them count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) identity: Identity,
    /// The ignore rules by which all its names were judged.
    pub(crate) rules: Option<Blake3>,
}

impl Folder {
    /// A folder of these entries, which are sorted by name, each name once.
    pub(crate) fn new(entries: Vec<Entry>, listed: Option<Listed>) -> Self {
        let mut bytes = Vec::with_capacity(HEADER.len() + entries.len() * 96);
        bytes.extend_from_slice(HEADER);
        let mut len = 0;
        for entry in &entries {
            let (word, digest) = match &entry.what {
                What::TreeNode(node, _) => (node.word(), node.content_digest()),
                What::Folder(folder) if folder.len == 0 => continue,
                What::Folder(folder) => ("tree", folder.digest),
            };
            len += entry.what.len();
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(b' ');
            push_hex(&mut bytes, &digest);
            bytes.push(b' ');
            bytes.extend_from_slice(entry.name.as_bytes());
            bytes.push(0);
        }
        Folder { digest: Blake3::of(&bytes), len, entries, listed }
    }

    /// A folder from the cache.
    pub(crate) fn known(digest: Blake3, entries: Vec<Entry>, listed: Option<Listed>) -> Self {
        let len = entries.iter().map(|entry| entry.what.len()).sum();
        Folder { digest, len, entries, listed }
    }

    pub(crate) fn digest(&self) -> Blake3 {
        self.digest
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn listed(&self) -> Option<&Listed> {
        self.listed.as_ref()
    }

    /// The entry under a name.
    pub(crate) fn get(&self, name: &str) -> Option<&What> {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        self.entries.get(at).map(|entry| &entry.what)
    }

    /// The entry at a path below.
    pub(crate) fn at(&self, path: &str) -> Option<&What> {
        match path.split_once('/') {
            None => self.get(path),
            Some((name, rest)) => self.get(name)?.folder()?.at(rest),
        }
    }

    /// Passes on every file and link with its path; `prefix` is the folder's own.
    pub(crate) fn each<'f>(&'f self, prefix: &str, take: &mut impl FnMut(TreePath, &'f TreeNode)) {
        for entry in &self.entries {
            let path = join(prefix, &entry.name);
            match &entry.what {
                What::Folder(folder) => folder.each(&path, take),
                // Every path was parsed when it came into a state.
                What::TreeNode(node, _) => drop(TreePath::parse(&path).map(|path| take(path, node))),
            }
        }
    }

    /// This folder with other entries at some paths below; of two for one path the later counts.
    pub(crate) fn with(
        self: &Arc<Self>,
        prefix: &str,
        changes: &[(&str, Option<&TreeNode>)],
    ) -> Result<Arc<Self>, FileAndFolder> {
        if changes.is_empty() {
            return Ok(Arc::clone(self));
        }
        let mut by_name: BTreeMap<&str, Changed<'_>> = BTreeMap::new();
        for (path, node) in changes {
            match path.split_once('/') {
                None => by_name.entry(path).or_default().itself = Some(*node),
                Some((name, rest)) => by_name.entry(name).or_default().beneath.push((rest, *node)),
            }
        }
        let mut entries: BTreeMap<&str, What> =
            self.entries.iter().map(|entry| (&*entry.name, entry.what.clone())).collect();
        for (name, changed) in by_name {
            let path = join(prefix, name);
            let (node, folder) = match entries.remove(name) {
                None => (None, None),
                Some(What::TreeNode(node, identity)) => (Some(What::TreeNode(node, identity)), None),
                Some(What::Folder(folder)) => (None, Some(folder)),
            };
            let node = match changed.itself {
                None => node,
                Some(after) => after.map(|after| What::TreeNode(after.clone(), None)),
            };
            let folder = match (folder, changed.beneath.is_empty()) {
                (folder, true) => folder,
                (folder, false) => Some(folder.unwrap_or_default().with(&path, &changed.beneath)?),
            };
            match (node, folder.filter(|folder| folder.len > 0)) {
                (Some(_), Some(_)) => return Err(FileAndFolder(path)),
                (Some(node), None) => drop(entries.insert(name, node)),
                (None, Some(folder)) => drop(entries.insert(name, What::Folder(folder))),
                (None, None) => {}
            }
        }
        let entries = entries.into_iter().map(|(name, what)| Entry { name: name.into(), what });
        Ok(Arc::new(Folder::new(entries.collect(), None)))
    }

    /// Adds every path that is not the same in `after`.
    pub(crate) fn differences(&self, after: &Folder, prefix: &str, changes: &mut Vec<Change>) {
        if self.digest == after.digest {
            return;
        }
        let nothing = Folder::default();
        let (mut ours, mut theirs) = (self.entries.iter().peekable(), after.entries.iter().peekable());
        while let Some(name) = match (ours.peek(), theirs.peek()) {
            (Some(one), Some(other)) => Some((&one.name).min(&other.name)),
            (one, other) => one.or(other).map(|entry| &entry.name),
        } {
            let before = ours.next_if(|entry| entry.name == *name).map(|entry| &entry.what);
            let after = theirs.next_if(|entry| entry.name == *name).map(|entry| &entry.what);
            let path = join(prefix, name);
            let (was, is) = (before.and_then(What::node), after.and_then(What::node));
            if was != is
                && let Ok(path) = TreePath::parse(&path)
            {
                changes.push(Change { path, before: was.cloned(), after: is.cloned() });
            }
            let folder = |what: Option<&What>| what.and_then(What::folder).cloned();
            match (folder(before), folder(after)) {
                (None, None) => {}
                (Some(before), after) => {
                    before.differences(after.as_deref().unwrap_or(&nothing), &path, changes);
                }
                (None, Some(after)) => nothing.differences(&after, &path, changes),
            }
        }
    }
}

impl Default for Folder {
    fn default() -> Self {
        Folder::new(Vec::new(), None)
    }
}

/// The difference under one name of a folder.
#[derive(Default)]
struct Changed<'c> {
    itself: Option<Option<&'c TreeNode>>,
    beneath: Vec<(&'c str, Option<&'c TreeNode>)>,
}

impl What {
    pub(crate) fn node(&self) -> Option<&TreeNode> {
        match self {
            What::TreeNode(node, _) => Some(node),
            What::Folder(_) => None,
        }
    }

    pub(crate) fn folder(&self) -> Option<&Arc<Folder>> {
        match self {
            What::TreeNode(..) => None,
            What::Folder(folder) => Some(folder),
        }
    }

    fn len(&self) -> usize {
        self.folder().map_or(1, |folder| folder.len)
    }
}

fn push_hex(bytes: &mut Vec<u8>, digest: &Blake3) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(digest.as_bytes()) {
        if let [high, low] = pair {
            (*high, *low) = (digit(byte >> 4), digit(byte & 15));
        }
    }
    bytes.extend_from_slice(&digits);
}
