//! The state of a workspace as an outsider computes it, from the published form: the Merkle hash over paths, kinds and
//! contents, and the manifest in which a kept state is written. `docs/workspace.md` specifies both.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Blake3;

use crate::finding::{Finding, FindingKind};

const TREE_HEADER: &str = "crealeph-tree-v1\n";
const MANIFEST_HEADER: &str = "crealeph-state-v1\n";
const DIFFERENCE_HEADER: &str = "crealeph-state-difference-v1\n";
/// How many differences lead to a whole manifest at most.
const MAX_DIFFERENCES: usize = 1000;
/// How many folders a path may lead through; a path of the longest that Linux takes leads through fewer.
const MAX_DEPTH: usize = 2048;

/// The file or link at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    /// `file`, `exec` or `link`.
    pub kind: Box<str>,
    /// The BLAKE3 of its content.
    pub digest: Blake3,
}

/// A state: the file or link at each path.
pub type StateEntries = BTreeMap<String, StateEntry>;

/// The hash of a state.
pub fn state_hash(entries: &StateEntries) -> Blake3 {
    let mut root = Folder::default();
    for (path, entry) in entries {
        let mut folder = &mut root;
        let mut name = path.as_str();
        while let Some((part, rest)) = name.split_once('/') {
            folder = folder.folders.entry(part).or_default();
            name = rest;
        }
        folder.files.insert(name, entry);
    }
    root.digest()
}

#[derive(Default)]
struct Folder<'e> {
    files: BTreeMap<&'e str, &'e StateEntry>,
    folders: BTreeMap<&'e str, Folder<'e>>,
}

impl Folder<'_> {
    fn digest(&self) -> Blake3 {
        let files = self.files.iter().map(|(name, entry)| (*name, &*entry.kind, entry.digest));
        let folders = self.folders.iter().map(|(name, folder)| (*name, "tree", folder.digest()));
        let mut all: Vec<(&str, &str, Blake3)> = files.chain(folders).collect();
        all.sort_unstable();
        let mut text = TREE_HEADER.to_owned();
        for (name, kind, digest) in all {
            text.push_str(&format!("{kind} {digest} {name}\0"));
        }
        Blake3::of(text.as_bytes())
    }
}

/// Reads a kept state. `load` gives the manifest that is kept under a hash.
///
/// # Errors
/// If a manifest is missing, is invalid, or is of another state.
pub fn read_state(
    hash: &Blake3,
    mut load: impl FnMut(&Blake3) -> Option<String>,
) -> Result<StateEntries, Finding> {
    let damaged = || Finding::changed(format!("the manifest of the state {hash} is not valid"));
    let (mut differences, mut at) = (Vec::new(), *hash);
    let mut entries = loop {
        let text = load(&at).ok_or_else(|| {
            Finding::new(FindingKind::Missing, format!("the manifest of the state {at} is not there"))
        })?;
        if let Some(lines) = text.strip_prefix(MANIFEST_HEADER) {
            break manifest_lines(lines, StateEntries::new()).ok_or_else(damaged)?;
        }
        let difference = text.strip_prefix(DIFFERENCE_HEADER).and_then(|text| text.split_once('\n'));
        let (base, lines) = difference.ok_or_else(damaged)?;
        at = Blake3::parse(base).ok_or_else(damaged)?;
        differences.push(lines.to_owned());
        if differences.len() > MAX_DIFFERENCES {
            return Err(damaged());
        }
    };
    for lines in differences.iter().rev() {
        entries = manifest_lines(lines, entries).ok_or_else(damaged)?;
    }
    match state_hash(&entries) == *hash {
        true => Ok(entries),
        false => Err(Finding::changed(format!("the manifest of the state {hash} is of another state"))),
    }
}

/// Applies the lines of a manifest to the entries so far.
fn manifest_lines(mut rest: &str, mut entries: StateEntries) -> Option<StateEntries> {
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\0')?;
        rest = after;
        let (kind, line) = line.split_once(' ')?;
        match kind {
            "gone" => {
                entries.remove(line)?;
                continue;
            }
            // Its content was hidden from the agent and is not stored; the state still has it.
            "withheld" => {
                entries.get(line)?;
                continue;
            }
            _ => {}
        }
        let mut parts = line.splitn(3, ' ');
        let digest = Blake3::parse(parts.next()?)?;
        let (_, path) = (parts.next()?.parse::<u64>().ok()?, parts.next()?);
        is_plain(path).then_some(())?;
        match kind {
            "file" | "exec" => {}
            "link" => {
                let (target, after) = rest.split_once('\0')?;
                rest = after;
                (Blake3::of(target.as_bytes()) == digest).then_some(())?;
            }
            _ => return None,
        }
        entries.insert(path.to_owned(), StateEntry { kind: kind.into(), digest });
    }
    Some(entries)
}

/// Whether a path is written in the one form of a state: relative, without empty parts or dots, of bounded depth.
fn is_plain(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.clone().count() <= MAX_DEPTH && parts.all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(files: &[(&str, &str, &str)]) -> StateEntries {
        let entry = |kind: &str, content: &str| StateEntry {
            kind: kind.into(),
            digest: Blake3::of(content.as_bytes()),
        };
        files.iter().map(|(path, kind, content)| ((*path).to_owned(), entry(kind, content))).collect()
    }

    /// The table in `docs/workspace.md`.
    #[test]
    fn the_published_state_hashes() {
        for (files, hash) in [
            (&[][..], "5ea38b19775b0473459ace1528d87208b85b9cabfcd94098c874395662c28532"),
            (&[("a", "file", "")][..], "6595fe7db34c0438be634e1985a0553004fccf2726cc5e961df160ba0bb167ab"),
            (&[("a", "exec", "")][..], "a3647affd54ae124968bb32a6e875b60894d109fc036ebe58a991c9b911d5ef4"),
        ] {
            assert_eq!(state_hash(&entries(files)).to_string(), hash);
        }
    }

    fn digest(content: &str) -> Blake3 {
        Blake3::of(content.as_bytes())
    }

    #[test]
    fn a_manifest_is_of_one_state_alone() {
        let state = entries(&[("a/b", "file", "one"), ("l", "link", "a/b")]);
        let hash = state_hash(&state);
        let one = format!("file {} 3 a/b\0link {} 3 l\0a/b\0", digest("one"), digest("a/b"));
        let text = format!("crealeph-state-v1\n{one}");
        assert_eq!(read_state(&hash, |_| Some(text.clone())).unwrap(), state);
        let mut survivors = 0;
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            survivors += usize::from(read_state(&hash, |_| Some(changed.clone())).is_ok());
        }
        assert_eq!(survivors, 2, "only the sizes, which the hash of a state does not cover");
        for other in ["a//b", "/a/b", "a/./b", "a/b/", &format!("{}b", "a/".repeat(100_000))] {
            let changed = text.replace("a/b\0link", &format!("{other}\0link"));
            assert!(
                read_state(&hash, |_| Some(changed.clone())).is_err(),
                "{}",
                other.get(..8).unwrap_or(other)
            );
        }
        assert_eq!(read_state(&hash, |_| None).unwrap_err().kind, FindingKind::Missing);
    }

    #[test]
    fn a_state_may_be_stored_as_a_difference() {
        let base = entries(&[("a", "file", "one"), ("b", "file", "two")]);
        let state = entries(&[("a", "exec", "one"), ("c", "file", "three")]);
        let (base_hash, hash) = (state_hash(&base), state_hash(&state));
        let whole = format!("crealeph-state-v1\nfile {} 3 a\0file {} 3 b\0", digest("one"), digest("two"));
        let lines = format!("exec {} 3 a\0gone b\0file {} 5 c\0", digest("one"), digest("three"));
        let difference = format!("crealeph-state-difference-v1\n{base_hash}\n{lines}");
        let load = |at: &Blake3| Some(if *at == hash { difference.clone() } else { whole.clone() });
        assert_eq!(read_state(&hash, load).unwrap(), state);
        let endless = |at: &Blake3| Some(format!("crealeph-state-difference-v1\n{at}\n"));
        assert_eq!(read_state(&hash, endless).unwrap_err().kind, FindingKind::Changed);
        let empty = state_hash(&StateEntries::new());
        let after = |mut differences: usize| {
            read_state(&empty, |_| {
                let is_whole = differences == 0;
                differences = differences.saturating_sub(1);
                Some(if is_whole {
                    MANIFEST_HEADER.to_owned()
                } else {
                    format!("{DIFFERENCE_HEADER}{empty}\n")
                })
            })
        };
        assert!(after(MAX_DIFFERENCES).is_ok() && after(MAX_DIFFERENCES + 1).is_err());
    }
}
