//! Checkpoints (C2SP tlog-checkpoint): what a log was at one size, in a signed note.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;

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

/// Why a checkpoint is not to be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The note around it.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// Not a checkpoint.
    #[error("the note is not a checkpoint: {0}")]
    Form(&'static str),
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
    /// Reads a checkpoint and checks that one of the keys has signed it for its own log.
    pub fn open(note: &str, keys: &[VerifierKey]) -> Result<Checkpoint, CheckpointError> {
        let checkpoint = Checkpoint::parse(note::open(note, keys)?)?;
        match keys.first() {
            Some(key) if !keys.iter().any(|key| key.name() == checkpoint.origin) => {
                let expected = key.name().to_owned();
                Err(CheckpointError::OtherLog { found: checkpoint.origin, expected })
            }
            _ => Ok(checkpoint),
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
            return Err(CheckpointError::Form("its size is not written plainly"));
        }
        let bytes = STANDARD.decode(root).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let root = bytes.ok_or(CheckpointError::Form("its root is not a hash"))?;
        Ok(Checkpoint { origin: origin.to_owned(), size: number, root: Sha256::from_bytes(root) })
    }
}
