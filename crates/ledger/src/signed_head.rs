//! The signer's own memory: a copy of the last checkpoint that it signed for each log, stored next to the keys, so that it never
//! signs a log that was rolled back or forked. The holder of the key can remove it, because they can sign anything; a user who
//! can only write to the ledger cannot.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Sha256;

use crate::checkpoint::stated;
use crate::keys::SigningKeyError;

/// The folder next to the keys; a separate one, so that many logs hide no key.
const FOLDER: &str = "signed";
/// The largest note that is read.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// The last signed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignedHead {
    /// How many entries.
    pub size: u64,
    /// The root of their tree.
    pub root: Sha256,
}

impl SignedHead {
    /// The last signed head of a log; `None` for those who may not read the folder of the keys.
    pub(crate) fn load(keys: &Path, origin: &str) -> Result<Option<SignedHead>, SigningKeyError> {
        read(&path_of(keys, origin), origin)
    }
}

/// The copy of one log's last signed head, for one signer at a time.
#[derive(Debug)]
pub(crate) struct LastSigned {
    path: PathBuf,
    head: Option<SignedHead>,
    /// Holds the lock until it is dropped.
    folder: File,
}

impl LastSigned {
    /// Reads the copy, and makes other signers of this folder wait until this is dropped.
    pub(crate) fn lock(keys: &Path, origin: &str) -> Result<LastSigned, SigningKeyError> {
        let folder = keys.join(FOLDER);
        let wrong = |error: std::io::Error| failed(&folder, &error);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(wrong(error)),
            _ => {}
        }
        let opened = File::open(&folder).map_err(wrong)?;
        opened.lock().map_err(wrong)?;
        let path = path_of(keys, origin);
        Ok(LastSigned { head: read(&path, origin)?, path, folder: opened })
    }

    pub(crate) fn head(&self) -> Option<&SignedHead> {
        self.head.as_ref()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the copy, durably, before the new statement leaves the signer.
    pub(crate) fn replace(&self, note: &str) -> Result<(), SigningKeyError> {
        let new = self.path.with_extension("new");
        let write = || {
            let mut out =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            out.write_all(note.as_bytes())?;
            out.sync_all()?;
            fs::rename(&new, &self.path)?;
            self.folder.sync_all()
        };
        write().map_err(|error| failed(&self.path, &error))
    }
}

/// One file per log, by a hash of its name, which may contain anything.
fn path_of(keys: &Path, origin: &str) -> PathBuf {
    let name: String = Sha256::of(origin.as_bytes()).to_string().chars().take(32).collect();
    keys.join(FOLDER).join(format!("{name}.checkpoint"))
}

fn read(path: &Path, origin: &str) -> Result<Option<SignedHead>, SigningKeyError> {
    let mut note = String::new();
    let opened = File::open(path).and_then(|file| file.take(MAX_NOTE_BYTES).read_to_string(&mut note));
    match opened {
        Ok(_) => match stated(&note) {
            Some((of, size, root)) if of == origin => Ok(Some(SignedHead { size, root })),
            _ => Err(SigningKeyError::Unsigned { file: path.to_owned() }),
        },
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => Ok(None),
            _ => Err(failed(path, &error)),
        },
    }
}

fn failed(path: &Path, error: &std::io::Error) -> SigningKeyError {
    SigningKeyError::Failed { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_last_signed_head_is_kept_per_log_and_a_damaged_copy_is_no_copy() {
        let keys = tempfile::tempdir().unwrap();
        let note = |size: u64| format!("log/a\n{size}\n{}\n\n\u{2014} log/a AAAA\n", "A".repeat(43) + "=");
        assert_eq!(SignedHead::load(keys.path(), "log/a").unwrap(), None);
        let last = LastSigned::lock(keys.path(), "log/a").unwrap();
        assert_eq!(last.head(), None);
        last.replace(&note(7)).unwrap();
        drop(last);
        assert_eq!(SignedHead::load(keys.path(), "log/a").unwrap().unwrap().size, 7);
        assert_eq!(SignedHead::load(keys.path(), "log/b").unwrap(), None);
        let last = LastSigned::lock(keys.path(), "log/a").unwrap();
        fs::write(last.path(), "log/a\nmany\n").unwrap();
        assert!(matches!(SignedHead::load(keys.path(), "log/a"), Err(SigningKeyError::Unsigned { .. })));
        fs::write(last.path(), note(7).replace("log/a", "log/b")).unwrap();
        assert!(SignedHead::load(keys.path(), "log/a").is_err(), "another log's statement");
    }
}
