//! Contents that git already has: which ones the store refers to instead of copying them. Owns the record of
//! that; the caller reads git's objects, and their contents are checked by BLAKE3.
//!
//! `.crealeph/references/<state hash>` is `crealeph-references-v1` and a line feed, then for each content that the state needs,
//! that was not in the store and that git had, `<BLAKE3> <git's object id>` and a line feed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, MutexGuard, PoisonError};

use crealeph_contracts::digest::{Blake3, GitHash};

use crate::control::{Control, ControlError, failed, make_private, sync_folder};
use crate::state::StateHash;

const HEADER: &str = "crealeph-references-v1\n";
/// Larger contents are copied: git's objects are read into memory as a whole.
pub(crate) const MAX_BLOB_BYTES: u64 = 64 << 20;
const MAX_REFERENCES_BYTES: u64 = 1 << 30;

/// The blobs that the current commit has at these paths of the workspace, and that the repository holds.
pub type FindBlobs = dyn Fn(&[&str]) -> Vec<(String, GitHash)> + Send + Sync;
/// The bytes of a blob; `None` if the repository no longer has it.
pub type ReadBlob = dyn Fn(&GitHash) -> io::Result<Option<Vec<u8>>> + Send + Sync;

/// How git's objects are found and read.
pub struct GitObjects {
    /// The blobs that exist.
    pub find: Box<FindBlobs>,
    /// The bytes of one.
    pub read: Box<ReadBlob>,
}

impl fmt::Debug for GitObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GitObjects")
    }
}

/// The contents that are git's, and the files with their references.
#[derive(Debug, Default)]
pub(crate) struct References {
    files: Vec<(String, u64, i64, i64)>,
    blobs: Arc<BTreeMap<Blake3, GitHash>>,
}

impl Control {
    /// Git's name of a content that the store refers to.
    pub(crate) fn reference(&self, digest: &Blake3) -> Result<Option<GitHash>, ControlError> {
        let known = self.known_references().blobs.get(digest).cloned();
        match known {
            Some(known) => Ok(Some(known)),
            None => Ok(self.references()?.get(digest).cloned()),
        }
    }

    /// The contents that the store refers to now: other processes add some, and clean up others.
    pub(crate) fn references(&self) -> Result<Arc<BTreeMap<Blake3, GitHash>>, ControlError> {
        let files = self.reference_files()?;
        let mut known = self.known_references();
        if known.files != files {
            let blobs = self.all_references()?.into_values().flatten().collect();
            *known = References { files, blobs: Arc::new(blobs) };
        }
        Ok(Arc::clone(&known.blobs))
    }

    fn known_references(&self) -> MutexGuard<'_, References> {
        self.references.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files with references, and the facts that show that they are unchanged.
    fn reference_files(&self) -> Result<Vec<(String, u64, i64, i64)>, ControlError> {
        let folder = self.references_folder();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &folder)(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("read", &folder))?;
            let data = entry.metadata().map_err(failed("read", &entry.path()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.push((name, data.ino(), data.ctime(), data.ctime_nsec()));
        }
        files.sort_unstable();
        Ok(files)
    }

    /// All references there are, by the file they are in.
    pub(crate) fn all_references(&self) -> Result<BTreeMap<String, Vec<(Blake3, GitHash)>>, ControlError> {
        let mut all = BTreeMap::new();
        for (name, ..) in self.reference_files()? {
            let path = self.references_folder().join(&name);
            let is_small = fs::symlink_metadata(&path).is_ok_and(|data| data.len() <= MAX_REFERENCES_BYTES);
            let text =
                if is_small { fs::read_to_string(&path).map_err(failed("read", &path))? } else { continue };
            let lines = text.strip_prefix(HEADER).unwrap_or_default().lines();
            let pairs = lines.filter_map(|line| {
                let (digest, blob) = line.split_once(' ')?;
                Some((Blake3::parse(digest)?, GitHash::parse(blob)?))
            });
            all.insert(name, pairs.collect());
        }
        Ok(all)
    }

    /// Records which contents of a state are git's; durable when this returns.
    pub(crate) fn refer(&self, state: StateHash, blobs: &[(Blake3, GitHash)]) -> Result<(), ControlError> {
        if blobs.is_empty() {
            return Ok(());
        }
        let (temporary, folder) = (self.temporary(), self.references_folder());
        make_private(&folder)?;
        let mut text = HEADER.to_owned();
        blobs.iter().for_each(|(digest, blob)| text.push_str(&format!("{digest} {}\n", blob.as_str())));
        let mut file = File::create_new(&temporary).map_err(failed("make", &temporary))?;
        file.write_all(text.as_bytes()).map_err(failed("write", &temporary))?;
        file.sync_all().map_err(failed("sync", &temporary))?;
        let path = folder.join(state.to_string());
        fs::rename(&temporary, &path).map_err(failed("name", &path))?;
        sync_folder(&folder)
    }
}
