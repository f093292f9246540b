//! Checkpoints (C2SP tlog-checkpoint): the state of a log at one size, in a signed note.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;

use crate::finding::{Finding, FindingKind};
use crate::note::{self, NoteError, VerifierKey};

/// A statement that a known key has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name.
    pub origin: String,
    /// How many entries it had.
    pub size: u64,
    /// The root of its tree.
    pub root: Sha256,
}

/// Why a checkpoint is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The note around it.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// Not a checkpoint.
    #[error("the note is not a checkpoint: {0}")]
    Form(&'static str),
    /// Not signed under the name of its log.
    #[error("the checkpoint has no signature as `{origin}`, which it is a statement of")]
    Unowned {
        /// The log it states.
        origin: String,
    },
    /// Of another log than the key is for.
    #[error("the checkpoint is of the log `{found}`, and the key is for `{expected}`")]
    OtherLog {
        /// The log it states.
        found: String,
        /// The log the key is for.
        expected: String,
    },
}

impl Checkpoint {
    /// Reads a checkpoint and checks that one of the keys has signed it for its own log. A statement of one log's key about
    /// another log does not count, even if both are known.
    pub fn open(note: &str, keys: &[VerifierKey]) -> Result<Checkpoint, CheckpointError> {
        let (text, signed_by) = note::open(note, keys)?;
        let checkpoint = Checkpoint::parse(text)?;
        match signed_by.iter().any(|key| key.name() == checkpoint.origin) {
            true => Ok(checkpoint),
            false => {
                let expected = signed_by.iter().map(|key| key.name()).collect::<Vec<_>>().join(", ");
                Err(CheckpointError::OtherLog { found: checkpoint.origin, expected })
            }
        }
    }

    /// Reads the statement of a checkpoint without checking its signatures; its log must at least be among its signature names.
    pub(crate) fn stated(note: &str) -> Result<Checkpoint, CheckpointError> {
        let (text, signers) = note::read(note)?;
        let checkpoint = Checkpoint::parse(text)?;
        match signers.contains(&checkpoint.origin) {
            true => Ok(checkpoint),
            false => Err(CheckpointError::Unowned { origin: checkpoint.origin }),
        }
    }

    fn parse(text: &str) -> Result<Checkpoint, CheckpointError> {
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next()) else {
            return Err(CheckpointError::Form("it has fewer than three lines"));
        };
        if origin.is_empty() {
            return Err(CheckpointError::Form("it names no log"));
        }
        let number: u64 = size.parse().map_err(|_| CheckpointError::Form("its size is not a number"))?;
        if number.to_string() != size {
            return Err(CheckpointError::Form("its size is not in canonical form"));
        }
        let bytes = STANDARD.decode(root).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let root = bytes.ok_or(CheckpointError::Form("its root is not a hash"))?;
        Ok(Checkpoint { origin: origin.to_owned(), size: number, root: Sha256::from_bytes(root) })
    }
}

/// Checks a checkpoint that a ledger stored with its root: that the log still has that root at its size, which is `found`, and
/// that one of the keys has signed both. Returns the signed checkpoint; nothing without keys, because then only the root is compared.
///
/// # Errors
/// What is wrong.
pub fn check_stored_checkpoint(
    note: &str,
    (size, root): (u64, Sha256),
    found: Option<Sha256>,
    keys: &[VerifierKey],
) -> Result<Option<Checkpoint>, Finding> {
    if found != Some(root) {
        return Err(Finding::new(FindingKind::Forked, "the log is not what the checkpoint states"));
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let signed =
        Checkpoint::open(note, keys).map_err(|error| Finding::new(FindingKind::Forged, error.to_string()))?;
    match (signed.size, signed.root) == (size, root) {
        true => Ok(Some(signed)),
        false => Err(Finding::changed("the signed checkpoint is not the stored one")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use ed25519_dalek::{Signer as _, SigningKey};

    /// A key of a log, and the signature line that it writes under a text.
    fn signer(log: &str, seed: u8) -> (VerifierKey, impl Fn(&str) -> String) {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let typed = [&[1], key.verifying_key().as_bytes().as_slice()].concat();
        let id = Sha256::of(&[log.as_bytes(), b"\n", &typed].concat()).as_bytes()[..4].to_vec();
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let public = VerifierKey::parse(&format!("{log}+{hex}+{}", STANDARD.encode(&typed))).unwrap();
        let name = log.to_owned();
        let line = move |text: &str| {
            let signature = key.sign(text.as_bytes()).to_bytes();
            format!("\u{2014} {name} {}\n", STANDARD.encode([&id[..], &signature].concat()))
        };
        (public, line)
    }

    #[test]
    fn a_stored_checkpoint_holds_if_log_row_and_signature_agree() {
        let ((ours, sign), (_, forge)) = (signer("our-log", 1), signer("our-log", 2));
        let text = format!("our-log\n7\n{}\n", STANDARD.encode([9; 32]));
        let note = format!("{text}\n{}", sign(&text));
        let (root, other) = (Sha256::from_bytes([9; 32]), Sha256::from_bytes([8; 32]));
        let check = |note: &str, stated, found, keys: &[VerifierKey]| {
            check_stored_checkpoint(note, stated, found, keys).map_err(|finding| finding.to_string())
        };
        let keys = [ours];
        assert_eq!(check(&note, (7, root), Some(root), &keys).unwrap().unwrap().size, 7);
        assert_eq!(check(&note, (7, root), Some(root), &[]), Ok(None));
        for found in [None, Some(other)] {
            for keys in [&keys[..], &[]] {
                let why = check(&note, (7, root), found, keys).unwrap_err();
                assert_eq!(why, "forked: the log is not what the checkpoint states");
            }
        }
        for stated in [(7, other), (6, root)] {
            let why = check(&note, stated, Some(stated.1), &keys).unwrap_err();
            assert_eq!(why, "changed: the signed checkpoint is not the stored one");
        }
        let forged = check(&format!("{text}\n{}", forge(&text)), (7, root), Some(root), &keys);
        assert!(forged.unwrap_err().starts_with("forged: "));
    }

    #[test]
    fn the_key_of_one_log_does_not_speak_for_another() {
        let ((ours, sign), (theirs, forge)) = (signer("our-log", 1), signer("their-log", 2));
        let keys = [ours, theirs];
        let text = format!("our-log\n7\n{}\n", STANDARD.encode([9; 32]));
        let note = |lines: &str| format!("{text}\n{lines}");
        assert_eq!(Checkpoint::open(&note(&sign(&text)), &keys).unwrap().size, 7);
        assert_eq!(Checkpoint::open(&note(&(forge(&text) + &sign(&text))), &keys).unwrap().size, 7);
        let forged = Checkpoint::open(&note(&forge(&text)), &keys).unwrap_err();
        assert!(matches!(forged, CheckpointError::OtherLog { .. }), "{forged}");
    }
}
