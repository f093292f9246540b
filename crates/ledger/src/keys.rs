//! The signing keys of a ledger: a folder that only its owner may enter, one file per key that only its owner may
//! read. Rotation adds keys, and keys are removed by hand; a secret is never printed, logged or exported.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;
use ed25519_dalek::{Signer as _, SigningKey};

const HEADER: &str = "crealeph signing key, Ed25519; keep it secret";
/// The type byte of an Ed25519 key in a signed note.
const ED25519: u8 = 0x01;
/// How many keys may sign in parallel.
const MAX_KEYS: usize = 16;
/// How many files the folder may hold, keys or not.
const MAX_FILES: usize = 1_024;

/// What can go wrong with keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum SigningKeyError {
    /// No folder, or no key in it.
    #[error("there is no signing key in `{}`", .folder.display())]
    Missing { folder: PathBuf },
    /// Others can read the secret.
    #[error("`{}` can be read by others (mode {mode:03o})", .file.display())]
    Exposed { file: PathBuf, mode: u32 },
    /// Not a key file.
    #[error("`{}` is not a signing key", .file.display())]
    Unreadable { file: PathBuf },
    /// The copy of the last signed head cannot be read back.
    #[error("`{}` is not a checkpoint of this log: the signer cannot tell whether the log extends what it signed", .file.display())]
    Unsigned { file: PathBuf },
    /// Reading or writing failed.
    #[error("`{}` failed: {reason}", .path.display())]
    Failed { path: PathBuf, reason: String },
    /// Too many keys.
    #[error("`{}` already holds {MAX_KEYS} keys", .folder.display())]
    TooMany { folder: PathBuf },
}

impl SigningKeyError {
    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            SigningKeyError::Missing { .. } => "create one with `crealeph ledger init`, or name the folder",
            SigningKeyError::Exposed { .. } => {
                "run `chmod 600` on it, and rotate the key if others have read it"
            }
            SigningKeyError::Unreadable { .. } => "remove it from the folder",
            SigningKeyError::Unsigned { .. } => "restore the file from a backup of the keys",
            SigningKeyError::Failed { .. } => "check the owner and mode of the folder",
            SigningKeyError::TooMany { .. } => "remove old ones first",
        }))
    }
}

/// The keys in use, oldest first. All of them sign every checkpoint, so that anyone who knows an older key can
/// still verify it; a newer key must be learned by other means.
pub struct Keyring {
    keys: Vec<SigningKey>,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring of {}", self.keys.len())
    }
}

impl Keyring {
    /// Reads every key of a folder.
    pub fn load(folder: &Path) -> Result<Keyring, SigningKeyError> {
        let mut files = key_files(folder)?;
        files.sort();
        let keys = files.iter().map(|file| read_key(file)).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(SigningKeyError::Missing { folder: folder.to_owned() });
        }
        Ok(Keyring { keys })
    }

    /// Creates the folder if needed, and a new key in it: the first one, or a rotation.
    pub fn create(folder: &Path) -> Result<Keyring, SigningKeyError> {
        let failed = |error: std::io::Error| failed(folder, &error);
        if !folder.is_dir() {
            fs::DirBuilder::new().mode(0o700).recursive(true).create(folder).map_err(failed)?;
        }
        let count = key_files(folder)?.len();
        if count >= MAX_KEYS {
            return Err(SigningKeyError::TooMany { folder: folder.to_owned() });
        }
        let mut seed = [0u8; 32];
        getrandom::fill(&mut seed).map_err(|error| SigningKeyError::Failed {
            path: folder.to_owned(),
            reason: error.to_string(),
        })?;
        let key = SigningKey::from_bytes(&seed);
        let fingerprint = Sha256::of(key.verifying_key().as_bytes()).to_string();
        let name = format!("{count:04}-{}.key", fingerprint.get(..8).unwrap_or_default());
        write_key(&folder.join(name), &seed)?;
        seed.fill(0);
        Keyring::load(folder)
    }

    /// The signature lines of a note's text, one for each key, under the log's name.
    pub(crate) fn sign(&self, name: &str, text: &str) -> String {
        let mut lines = String::new();
        for key in &self.keys {
            let public = key.verifying_key().to_bytes();
            let mut bytes = key_id(name, &public).to_vec();
            bytes.extend_from_slice(&key.sign(text.as_bytes()).to_bytes());
            lines.push_str(&format!("\u{2014} {name} {}\n", STANDARD.encode(bytes)));
        }
        lines
    }

    /// The signatures of a message that is not a note, one for each key, oldest first. The caller makes sure that the
    /// message cannot be mistaken for a note's text.
    pub fn signatures(&self, message: &[u8]) -> Vec<[u8; 64]> {
        self.keys.iter().map(|key| key.sign(message).to_bytes()).collect()
    }

    /// The name by which a verifier knows each key, oldest first: name and key id, joined by `+`.
    pub fn key_ids(&self, name: &str) -> Vec<String> {
        self.keys.iter().map(|key| shown_id(name, &key.verifying_key().to_bytes())).collect()
    }

    /// The public keys in the form for a verifier, oldest first: name, key id and key, joined by `+`.
    pub fn verifier_keys(&self, name: &str) -> Vec<String> {
        let keys = self.keys.iter().map(|key| {
            let public = key.verifying_key().to_bytes();
            let mut typed = vec![ED25519];
            typed.extend_from_slice(&public);
            format!("{}+{}", shown_id(name, &public), STANDARD.encode(typed))
        });
        keys.collect()
    }
}

/// The first four bytes of the SHA-256 of name, newline, type and key, as C2SP signed-note has it.
fn key_id(name: &str, public: &[u8; 32]) -> [u8; 4] {
    let mut bytes = name.as_bytes().to_vec();
    bytes.extend_from_slice(&[b'\n', ED25519]);
    bytes.extend_from_slice(public);
    let [a, b, c, d, ..] = *Sha256::of(&bytes).as_bytes();
    [a, b, c, d]
}

fn shown_id(name: &str, public: &[u8; 32]) -> String {
    let id: String = key_id(name, public).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}+{id}")
}

fn key_files(folder: &Path) -> Result<Vec<PathBuf>, SigningKeyError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(SigningKeyError::Missing { folder: folder.to_owned() });
        }
        Err(error) => return Err(failed(folder, &error)),
    };
    let mut files = Vec::new();
    for (number, entry) in entries.enumerate() {
        if number >= MAX_FILES {
            let reason = format!("it has more than {MAX_FILES} files; keep only keys in it");
            return Err(SigningKeyError::Failed { path: folder.to_owned(), reason });
        }
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "key") {
            files.push(path);
        }
    }
    Ok(files)
}

fn read_key(file: &Path) -> Result<SigningKey, SigningKeyError> {
    let metadata = fs::metadata(file).map_err(|error| failed(file, &error))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SigningKeyError::Exposed { file: file.to_owned(), mode });
    }
    let unreadable = || SigningKeyError::Unreadable { file: file.to_owned() };
    if metadata.len() > 1024 {
        return Err(unreadable());
    }
    let text = fs::read_to_string(file).map_err(|error| failed(file, &error))?;
    let (header, secret) = text.trim_end().split_once('\n').ok_or_else(unreadable)?;
    let seed = STANDARD.decode(secret).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    match seed {
        Some(seed) if header == HEADER => Ok(SigningKey::from_bytes(&seed)),
        _ => Err(unreadable()),
    }
}

fn write_key(file: &Path, seed: &[u8; 32]) -> Result<(), SigningKeyError> {
    let write = || {
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        writeln!(out, "{HEADER}\n{}", STANDARD.encode(seed))?;
        out.sync_all()
    };
    write().map_err(|error| failed(file, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> SigningKeyError {
    SigningKeyError::Failed { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_for_their_owner_alone_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        assert!(matches!(Keyring::load(&keys), Err(SigningKeyError::Missing { .. })));
        let first = Keyring::create(&keys).unwrap();
        let [file] = key_files(&keys).unwrap().try_into().unwrap();
        assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        let secret = text.lines().nth(1).unwrap();
        assert!(!format!("{first:?} {:?}", first.verifier_keys("log")).contains(secret));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Keyring::load(&keys), Err(SigningKeyError::Exposed { mode: 0o640, .. })));
    }

    #[test]
    fn a_rotation_keeps_the_older_keys_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = Keyring::create(folder.path()).unwrap().verifier_keys("log");
        let both = Keyring::create(folder.path()).unwrap().verifier_keys("log");
        assert_eq!((both.len(), &both[..1]), (2, first.as_slice()));
        let keys = Keyring::load(folder.path()).unwrap();
        assert_eq!((keys.signatures(b"message").len(), keys.key_ids("log").len()), (2, 2));
        assert!(both.iter().zip(keys.key_ids("log")).all(|(key, id)| key.starts_with(&format!("{id}+"))));
        for _ in 2..MAX_KEYS {
            Keyring::create(folder.path()).unwrap();
        }
        assert!(matches!(Keyring::create(folder.path()), Err(SigningKeyError::TooMany { .. })));
    }

    #[test]
    fn an_invalid_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        Keyring::create(folder.path()).unwrap();
        let stray = folder.path().join("stray.key");
        fs::write(&stray, "hello\nworld\n").unwrap();
        fs::set_permissions(&stray, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Keyring::load(folder.path()).unwrap_err(), SigningKeyError::Unreadable { file: stray });
    }
}
