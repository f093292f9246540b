//! Removing states that are no longer needed, and the contents that only they needed. Owns the order of the removals: at every
//! moment an existing state has everything it needs, so a kill in between only leaves more to remove.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crealeph_contracts::digest::Blake3;

use crate::control::{failed, sync_folder};
use crate::kept_state::{KeepError, Manifest, manifest, read_manifest, withheld_in};
use crate::state::StateHash;
use crate::workspace::Workspace;

/// The result of cleaning, or of its dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// How many states.
    pub states: usize,
    /// How many contents.
    pub contents: usize,
    /// The size of the files of both.
    pub bytes: u64,
}

impl Workspace {
    /// Removes every kept state but these, then every content that none of these needs. A state that was written as the difference
    /// from a removed one is written whole first. Files that dead processes left are removed too. No one may keep a state or capture a change
    /// meanwhile. With `is_dry` it only counts.
    ///
    /// # Errors
    /// If a needed state cannot be read; then nothing is removed. If something cannot be removed.
    pub fn clean(&self, needed: &BTreeSet<StateHash>, is_dry: bool) -> Result<Cleaned, KeepError> {
        let alone = self.control.lock_to_publish()?;
        let mut contents = BTreeSet::new();
        for hash in needed {
            contents.append(&mut self.stand_alone(*hash, needed, is_dry)?);
        }
        let mut cleaned = Cleaned::default();
        let states = self.control.states();
        for hash in self.removable_states(needed)? {
            cleaned.bytes += remove(&states.join(hash.to_string()), is_dry)?;
            cleaned.states += 1;
        }
        if !is_dry {
            sync_folder(&states)?;
            self.control.sweep(&alone)?;
        }
        let references = self.control.references_folder();
        for (name, blobs) in self.control.all_references()? {
            if !blobs.iter().any(|(digest, _)| contents.contains(digest)) {
                cleaned.bytes += remove(&references.join(name), is_dry)?;
            }
        }
        let objects = self.control.objects();
        for entry in fs::read_dir(&objects).map_err(failed("read", &objects))? {
            let folder = entry.map_err(failed("read", &objects))?.path();
            let Some(start) = folder.file_name().and_then(|name| name.to_str()) else { continue };
            for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
                let path = entry.map_err(failed("read", &folder))?.path();
                let rest = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if Blake3::parse(&format!("{start}{rest}")).is_some_and(|digest| !contents.contains(&digest))
                {
                    cleaned.bytes += remove(&path, is_dry)?;
                    cleaned.contents += 1;
                }
            }
        }
        Ok(cleaned)
    }

    /// Makes a state independent of those that are not needed; returns the contents that its manifest names.
    fn stand_alone(
        &self,
        hash: StateHash,
        needed: &BTreeSet<StateHash>,
        is_dry: bool,
    ) -> Result<BTreeSet<Blake3>, KeepError> {
        // A run that left nothing may name a state that was never kept.
        let Some(text) = read_manifest(&self.control, hash)? else { return Ok(BTreeSet::new()) };
        let parsed = Manifest::parse(&text).ok_or(KeepError::Damaged(hash))?;
        if parsed.base.is_none_or(|base| needed.contains(&base)) {
            return parsed.contents().ok_or(KeepError::Damaged(hash));
        }
        let whole = manifest(&self.kept(hash)?, &withheld_in(&self.control, hash)?);
        if !is_dry {
            self.write_manifest(hash, &whole)?;
        }
        Manifest::parse(&whole).and_then(|whole| whole.contents()).ok_or(KeepError::Damaged(hash))
    }

    /// The states that are not kept, each before the one that it is the difference from.
    fn removable_states(&self, kept: &BTreeSet<StateHash>) -> Result<Vec<StateHash>, KeepError> {
        let folder = self.control.states();
        let mut bases = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let name = entry.map_err(failed("read", &folder))?.file_name();
            let hash = name.to_str().and_then(Blake3::parse).map(StateHash::from_digest);
            let Some(hash) = hash.filter(|hash| !kept.contains(hash)) else { continue };
            let text = read_manifest(&self.control, hash)?;
            bases.insert(hash, text.as_deref().and_then(Manifest::parse).and_then(|manifest| manifest.base));
        }
        let distance = |hash: &StateHash| {
            let above = std::iter::successors(Some(*hash), |hash| bases.get(hash).copied().flatten());
            above.take(bases.len() + 1).count()
        };
        let mut all: Vec<StateHash> = bases.keys().copied().collect();
        all.sort_by_cached_key(|hash| std::cmp::Reverse(distance(hash)));
        Ok(all)
    }
}

/// Removes a file and returns how many bytes it held.
fn remove(path: &Path, is_dry: bool) -> Result<u64, KeepError> {
    let bytes = fs::symlink_metadata(path).map_err(failed("read", path))?.len();
    if !is_dry {
        fs::remove_file(path).map_err(failed("remove", path))?;
    }
    Ok(bytes)
}
