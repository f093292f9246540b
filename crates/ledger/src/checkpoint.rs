//! Signed checkpoints and proofs as texts: C2SP tlog-checkpoint inside a signed note, C2SP tlog-proof for inclusion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;

use crate::keys::Keyring;
use crate::position::MAX_SEQ;

/// A signed statement of the log's state at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCheckpoint {
    /// The log's name.
    pub origin: String,
    /// How many entries it had.
    pub size: u64,
    /// The root of its tree.
    pub root: Sha256,
    /// The signed note.
    pub note: String,
}

impl SignedCheckpoint {
    /// Composes the note and signs it.
    pub(crate) fn sign(origin: &str, size: u64, root: Sha256, keys: &Keyring) -> SignedCheckpoint {
        let text = format!("{origin}\n{size}\n{}\n", STANDARD.encode(root.as_bytes()));
        let note = format!("{text}\n{}", keys.sign(origin, &text));
        SignedCheckpoint { origin: origin.to_owned(), size, root, note }
    }
}

/// The statement of a note: the log, how many entries, the root of their tree. A verifier checks who signed it.
pub(crate) fn stated(note: &str) -> Option<(&str, u64, Sha256)> {
    let mut lines = note.split('\n');
    let (origin, number, root) = (lines.next()?, lines.next()?, lines.next()?);
    let size: u64 = number.parse().ok().filter(|size| *size <= MAX_SEQ)?;
    let root = Sha256::from_bytes(STANDARD.decode(root).ok()?.try_into().ok()?);
    // The note states nothing but these three lines: next is the blank line before the signatures.
    (!origin.is_empty() && size.to_string() == number && lines.next() == Some(""))
        .then_some((origin, size, root))
}

/// The text of an inclusion proof: index, path and the checkpoint it leads to.
pub(crate) fn proof_text(index: u64, path: &[Sha256], checkpoint: &SignedCheckpoint) -> String {
    let mut text = format!("c2sp.org/tlog-proof@v1\nindex {index}\n");
    for hash in path {
        text.push_str(&STANDARD.encode(hash.as_bytes()));
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&checkpoint.note);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_states_three_lines_in_one_form_and_nothing_more() {
        let root = Sha256::of(b"root");
        let hash = STANDARD.encode(root.as_bytes());
        let note = |size: &str| format!("log\n{size}\n{hash}\n\n\u{2014} log AAAA\n");
        assert_eq!(stated(&note("7")), Some(("log", 7, root)));
        assert_eq!(stated(&note(&MAX_SEQ.to_string())), Some(("log", MAX_SEQ, root)));
        for bad in [
            note("07"),
            note("+7"),
            note("-1"),
            note(&(MAX_SEQ + 1).to_string()),
            note("7").replacen("log", "", 1),
            note("7").replace("\n\n", "\nmore\n\n"),
            note("7").replace(&hash, "AAAA"),
            "log\n7".to_owned(),
        ] {
            assert_eq!(stated(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_proof_states_its_index_its_path_and_the_checkpoint_that_it_leads_to() {
        let (root, left, right) = (Sha256::of(b"root"), Sha256::of(b"left"), Sha256::of(b"right"));
        let note = "log\n7\nAAAA\n\n\u{2014} log AAAA\n".to_owned();
        let checkpoint = SignedCheckpoint { origin: "log".to_owned(), size: 7, root, note: note.clone() };
        let [first, second] = [left, right].map(|hash| STANDARD.encode(hash.as_bytes()));
        let text = proof_text(3, &[left, right], &checkpoint);
        assert_eq!(text, format!("c2sp.org/tlog-proof@v1\nindex 3\n{first}\n{second}\n\n{note}"));
        assert_eq!(proof_text(0, &[], &checkpoint), format!("c2sp.org/tlog-proof@v1\nindex 0\n\n{note}"));
    }
}
