//! Proof files: an entry and a C2SP tlog-proof, checked offline with the user's key.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::entry::{with_lost_payload, without_lost_payload};
use crealeph_contracts::json::{Limits, Node, ObjectWriter, canonical, parse};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::note::VerifierKey;
use crate::tree::{leaf, verify_inclusion};

/// The largest proof file that is read.
const MAX_PROOF_BYTES: usize = 64 << 20;
/// The most hashes a path can have: a tree has at most 2^63 leaves.
const MAX_PATH: usize = 64;

/// An entry that is proved to be in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenEntry {
    /// The entry's canonical text.
    pub entry: String,
    /// Its id.
    pub id: String,
    /// Its sequence number.
    pub seq: u64,
    /// The checkpoint that covers it.
    pub checkpoint: Checkpoint,
}

/// Why a proof does not prove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Not a proof file.
    #[error("the file is not a proof: {0}")]
    Form(&'static str),
    /// The checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The entry is elsewhere than the proof says.
    #[error("the proof is for leaf {index}, and the entry has sequence number {seq}")]
    OtherEntry {
        /// The leaf, from 0.
        index: u64,
        /// The entry's number, from 1.
        seq: u64,
    },
    /// The path leads elsewhere.
    #[error("the entry is not in the log that the checkpoint states: entry or proof was changed")]
    NotIncluded,
}

/// Checks a proof file: `{"entry":…,"format":"crealeph-proof-v1","proof":…}`.
pub fn verify_proof(file: &[u8], keys: &[VerifierKey]) -> Result<ProvenEntry, ProofError> {
    let readable = std::str::from_utf8(file).ok().and_then(with_lost_payload);
    let has_lost_payload = readable.is_some();
    let file = readable.as_deref().map_or(file, str::as_bytes);
    let (document, faults) = parse(file, &Limits::own(MAX_PROOF_BYTES));
    let document = document.filter(|_| faults.is_empty()).ok_or(ProofError::Form("it is not JSON"))?;
    let root = document.root();
    let format = root.member("format").and_then(Node::string);
    if format.as_deref() != Some("crealeph-proof-v1") || root.members().count() != 3 {
        return Err(ProofError::Form("it is not of the format crealeph-proof-v1"));
    }
    let entry = root.member("entry").ok_or(ProofError::Form("it holds no entry"))?;
    let proof = root.member("proof").and_then(Node::string).ok_or(ProofError::Form("it holds no proof"))?;
    let (id, seq, record) =
        leaf_record(entry, has_lost_payload).ok_or(ProofError::Form("the entry is not in canonical form"))?;
    let (index, path, note) = read_proof(&proof)?;
    let checkpoint = Checkpoint::open(note, keys)?;
    if index.checked_add(1) != Some(seq) {
        return Err(ProofError::OtherEntry { index, seq });
    }
    let hash = leaf(record.as_bytes());
    if !verify_inclusion(&hash, index, checkpoint.size, &path, &checkpoint.root) {
        return Err(ProofError::NotIncluded);
    }
    Ok(ProvenEntry { entry: entry.source().to_owned(), id, seq, checkpoint })
}

/// The id, the sequence number and the leaf record of an entry in canonical form; `has_lost_payload` if it was stored
/// without one ([`with_lost_payload`]).
pub(crate) fn leaf_record(entry: Node<'_>, has_lost_payload: bool) -> Option<(String, u64, String)> {
    let text = entry.source();
    if canonical(entry) != text {
        return None;
    }
    let stored = if has_lost_payload { Cow::Owned(without_lost_payload(text)) } else { Cow::Borrowed(text) };
    let id = entry.member("id")?.string()?.into_owned();
    let number = entry.member("seq")?.number()?;
    let seq = (number >= 1.0 && number.fract() == 0.0 && number < 9_007_199_254_740_992.0)
        .then_some(number as u64)?;
    let mut record = String::new();
    let mut object = ObjectWriter::new(&mut record);
    object
        .text("blake3", &Blake3::of(stored.as_bytes()).to_string())
        .text("id", &id)
        .raw("seq", &seq.to_string());
    object.end();
    Some((id, seq, record))
}

fn read_proof(text: &str) -> Result<(u64, Vec<Sha256>, &str), ProofError> {
    let (head, note) = text.split_once("\n\n").ok_or(ProofError::Form("the proof has no checkpoint"))?;
    let mut lines = head.split('\n');
    if lines.next() != Some("c2sp.org/tlog-proof@v1") {
        return Err(ProofError::Form("the proof is not a tlog-proof of version 1"));
    }
    let index = lines
        .next()
        .and_then(|line| line.strip_prefix("index "))
        .ok_or(ProofError::Form("it has no index"))?;
    let number: u64 = index.parse().map_err(|_| ProofError::Form("its index is not a number"))?;
    if number.to_string() != index {
        return Err(ProofError::Form("its index is not in canonical form"));
    }
    let mut path = Vec::new();
    for line in lines {
        let hash = STANDARD.decode(line).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        path.push(Sha256::from_bytes(hash.ok_or(ProofError::Form("a line of its path is not a hash"))?));
        if path.len() > MAX_PATH {
            return Err(ProofError::Form("its path is too long"));
        }
    }
    Ok((number, path, note))
}
