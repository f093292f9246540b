//! What this user accepted, kept in the user's own state: one file for each configuration, named by the hash of its real
//! path. Refuses a folder or file that is someone else's or that others can write to.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Blake3;
use crealeph_workspace::{OwnershipError, make_private_folder, replace_private_file};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::grants::GrantSet;
use crate::bounded_read::read_whole;

const FOLDER: &str = "trust";
const VERSION: u32 = 1;
/// The largest record that is read: a configuration is at most 1 MiB.
const MAX_BYTES: u64 = 16 << 20;
/// How many configurations are listed.
const MAX_LISTED: usize = 100_000;

/// Why what was accepted cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrustStoreError {
    /// The folder or a file is not this user's alone.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// A record cannot be read.
    #[error("cannot read `{}`; remove it, and you are asked again about what it accepted", .path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There are more records than are listed.
    #[error("`{}` has more than {MAX_LISTED} files; remove records of configurations that are gone", .0.display())]
    TooMany(PathBuf),
}

/// What was accepted of one configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    version: u32,
    /// The configuration's real path.
    pub path: PathBuf,
    /// What was accepted.
    pub set: GrantSet,
}

/// The records.
#[derive(Debug)]
pub struct TrustStore {
    folder: PathBuf,
}

impl TrustStore {
    /// The records in the user's state directory, which is made if it is not there.
    ///
    /// # Errors
    /// When the directory is someone else's, or others can write to it.
    pub fn open(user_state: &Path) -> Result<Self, TrustStoreError> {
        make_private_folder(user_state)?;
        let folder = user_state.join(FOLDER);
        make_private_folder(&folder)?;
        Ok(TrustStore { folder })
    }

    /// What was accepted of the configuration at a real path; nothing if nothing was.
    ///
    /// # Errors
    /// When the record cannot be read, or is not this user's.
    pub fn accepted(&self, path: &Path) -> Result<Option<GrantSet>, TrustStoreError> {
        let record = read(&self.record(path))?;
        Ok(record.filter(|record| record.path == path).map(|record| record.set))
    }

    /// Accepts a set for the configuration at a real path, in place of what was accepted before.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn accept(&self, path: &Path, set: &GrantSet) -> Result<(), TrustStoreError> {
        let accepted = Accepted { version: VERSION, path: path.to_owned(), set: set.clone() };
        let record = self.record(path);
        let text = serde_json::to_vec(&accepted)
            .map_err(|error| TrustStoreError::Record { path: record.clone(), source: error.into() })?;
        Ok(replace_private_file(&record, &text)?)
    }

    /// Revokes what was accepted of a configuration, and says whether there was anything.
    ///
    /// # Errors
    /// When the record cannot be removed.
    pub fn revoke(&self, path: &Path) -> Result<bool, TrustStoreError> {
        let record = self.record(path);
        match fs::remove_file(&record) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TrustStoreError::Record { path: record, source }),
        }
    }

    /// Everything that was accepted, by path.
    ///
    /// # Errors
    /// When a record cannot be read, or there are more than a hundred thousand.
    pub fn all(&self) -> Result<Vec<Accepted>, TrustStoreError> {
        let failed = |source| TrustStoreError::Record { path: self.folder.clone(), source };
        let mut all = Vec::new();
        for (count, entry) in fs::read_dir(&self.folder).map_err(failed)?.enumerate() {
            if count >= MAX_LISTED {
                return Err(TrustStoreError::TooMany(self.folder.clone()));
            }
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                all.extend(read(&path)?);
            }
        }
        all.sort_by(|one: &Accepted, other| one.path.cmp(&other.path));
        Ok(all)
    }

    fn record(&self, path: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", Blake3::of(path.as_os_str().as_bytes())))
    }
}

fn read(path: &Path) -> Result<Option<Accepted>, TrustStoreError> {
    let failed = |source| TrustStoreError::Record { path: path.to_owned(), source };
    let no_follow = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(no_follow).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        let (path, owner) = (path.to_owned(), metadata.uid());
        return Err(OwnershipError::Owner { path, owner, user }.into());
    }
    if metadata.mode() & 0o022 != 0 {
        let (path, mode) = (path.to_owned(), metadata.mode() & 0o777);
        return Err(OwnershipError::Writable { path, mode }.into());
    }
    let bytes = read_whole(file, MAX_BYTES).map_err(failed)?;
    let accepted: Accepted = serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
    match accepted.version == VERSION {
        true => Ok(Some(accepted)),
        false => Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it was written by another version"))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn accepted_grants_are_kept_until_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::open(&folder.path().join("state")).unwrap();
        let path = Path::new("/project/crealeph.toml");
        assert_eq!(store.accepted(path).unwrap(), None);
        store.accept(path, &GrantSet::default()).unwrap();
        assert_eq!(store.accepted(path).unwrap(), Some(GrantSet::default()));
        assert_eq!(store.accepted(Path::new("/other")).unwrap(), None);
        assert_eq!(store.all().unwrap().len(), 1);
        let record = store.record(path);
        fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(store.accepted(path).unwrap_err().to_string().contains("others may write"));
        assert!(store.revoke(path).unwrap() && !store.revoke(path).unwrap());
        assert_eq!(store.all().unwrap(), []);
    }

    #[test]
    fn a_record_over_the_limit_is_refused_and_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::open(&folder.path().join("state")).unwrap();
        let path = Path::new("/project/crealeph.toml");
        store.accept(path, &GrantSet::default()).unwrap();
        let record = store.record(path);
        let text = fs::read_to_string(&record).unwrap();
        fs::write(&record, text + &" ".repeat(MAX_BYTES as usize)).unwrap();
        let error = store.accepted(path).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("it is longer than the limit of 16777216 bytes"));
    }
}
