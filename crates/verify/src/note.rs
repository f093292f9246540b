//! Signed notes (C2SP signed-note): a text, a blank line, and signature lines, checked with keys known beforehand.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;
use ed25519_dalek::{Signature, VerifyingKey};

/// The type byte of an Ed25519 key.
const ED25519: u8 = 0x01;
/// The largest note that is read.
const MAX_NOTE_BYTES: usize = 1 << 20;
/// The most signature lines that are read.
const MAX_SIGNATURES: usize = 100;

/// A public key and its signature name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

/// Why a text is not a verifier key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifierKeyError {
    /// Not in this form.
    #[error("a verifier key is `name+id+key`, as `crealeph ledger key` prints it")]
    Form,
    /// Not a name.
    #[error("the key's name is empty, or holds a space or a `+`")]
    Name,
    /// Another kind of key.
    #[error("the key is not an Ed25519 key")]
    Type,
    /// The id belongs to another key or name.
    #[error("the key's id does not match its name and key; it was copied wrongly, or changed")]
    Id,
}

impl VerifierKey {
    /// Reads the form `name+id+key`.
    pub fn parse(text: &str) -> Result<Self, VerifierKeyError> {
        let mut parts = text.trim_end_matches('\n').splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VerifierKeyError::Form);
        };
        if !is_name(name) {
            return Err(VerifierKeyError::Name);
        }
        let typed = STANDARD.decode(key).map_err(|_| VerifierKeyError::Form)?;
        let Some((ED25519, public)) = typed.split_first().map(|(kind, public)| (*kind, public)) else {
            return Err(VerifierKeyError::Type);
        };
        let public: [u8; 32] = public.try_into().map_err(|_| VerifierKeyError::Type)?;
        let key = VerifyingKey::from_bytes(&public).map_err(|_| VerifierKeyError::Type)?;
        let expected = key_id(name, &typed);
        let shown: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
        if shown != id {
            return Err(VerifierKeyError::Id);
        }
        Ok(VerifierKey { name: name.to_owned(), id: expected, key })
    }

    /// Its signature name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What identifies its signatures: name and key id, joined by `+`.
    pub(crate) fn id_text(&self) -> String {
        let id: String = self.id.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}+{id}", self.name)
    }

    /// Whether it has signed a message.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature);
        signature.is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '+')
}

fn key_id(name: &str, typed: &[u8]) -> [u8; 4] {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'\n');
    bytes.extend_from_slice(typed);
    let [a, b, c, d, ..] = *Sha256::of(&bytes).as_bytes();
    [a, b, c, d]
}

/// Why a note is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// Not a signed note.
    #[error("the text is not a signed note: {0}")]
    Form(&'static str),
    /// No known key has signed it.
    #[error("no known key has signed the note; it is signed as {}", names(.signers))]
    Unsigned {
        /// The names of the signature lines.
        signers: Vec<String>,
    },
    /// A known key's signature does not match.
    #[error("the signature of `{name}` is forged, or the text was changed")]
    Forged {
        /// The key's name.
        name: String,
    },
}

fn names(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The text of a note that at least one of the keys has signed, and none of them falsely; and which have. Lines of unknown
/// keys are ignored, as the format requires.
pub(crate) fn open<'a, 'k>(
    note: &'a str,
    keys: &'k [VerifierKey],
) -> Result<(&'a str, Vec<&'k VerifierKey>), NoteError> {
    let (text, lines) = parts(note)?;
    let (mut signed_by, mut signers) = (Vec::new(), Vec::new());
    for (name, id, signature) in lines {
        signers.push(name.to_owned());
        let Some(key) = keys.iter().find(|key| key.name == name && key.id == id) else { continue };
        if !key.has_signed(text.as_bytes(), &signature) {
            return Err(NoteError::Forged { name: name.to_owned() });
        }
        signed_by.push(key);
    }
    if signed_by.is_empty() { Err(NoteError::Unsigned { signers }) } else { Ok((text, signed_by)) }
}

/// The text of a note, and its signature names; only its form is checked.
pub(crate) fn read(note: &str) -> Result<(&str, Vec<String>), NoteError> {
    let (text, lines) = parts(note)?;
    Ok((text, lines.into_iter().map(|(name, ..)| name.to_owned()).collect()))
}

type SignatureLine<'a> = (&'a str, [u8; 4], Vec<u8>);

fn parts(note: &str) -> Result<(&str, Vec<SignatureLine<'_>>), NoteError> {
    if note.len() > MAX_NOTE_BYTES {
        return Err(NoteError::Form("it is too long"));
    }
    if note.chars().any(|c| c.is_control() && c != '\n') {
        return Err(NoteError::Form("it holds a control character"));
    }
    let (text, signatures) = note.rsplit_once("\n\n").ok_or(NoteError::Form("it has no blank line"))?;
    // The text keeps its last newline, which is signed; the blank line is not.
    let text = note.get(..=text.len()).ok_or(NoteError::Form("it has no blank line"))?;
    let signatures =
        signatures.strip_suffix('\n').ok_or(NoteError::Form("its last line has no line feed"))?;
    let mut lines = Vec::new();
    for line in signatures.split('\n') {
        if lines.len() >= MAX_SIGNATURES {
            return Err(NoteError::Form("it has too many signatures"));
        }
        lines.push(signature_line(line).ok_or(NoteError::Form("a signature line is broken"))?);
    }
    Ok((text, lines))
}

fn signature_line(line: &str) -> Option<SignatureLine<'_>> {
    let (name, encoded) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
    let bytes = STANDARD.decode(encoded).ok()?;
    let (id, signature) = bytes.split_first_chunk::<4>()?;
    (is_name(name) && !signature.is_empty()).then(|| (name, *id, signature.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Go's `sumdb/note`, from which the format comes.
    const KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n\n\
        — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

    #[test]
    fn the_published_note_is_read() {
        let key = VerifierKey::parse(KEY).unwrap();
        let (text, signed_by) = open(NOTE, std::slice::from_ref(&key)).unwrap();
        assert_eq!(signed_by, [&key]);
        assert!(text.starts_with("If you") && text.ends_with("problem is.\n"));
        let stranger = format!("{NOTE}— Someone AAAAAAAAAAA=\n");
        assert!(open(&stranger, std::slice::from_ref(&key)).is_ok(), "an unknown signer changes nothing");
        assert!(
            matches!(open(NOTE, &[]), Err(NoteError::Unsigned { signers }) if signers == ["PeterNeumann"])
        );
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let keys = [VerifierKey::parse(KEY).unwrap()];
        for at in 0..NOTE.len() {
            for flip in [1u8, 2, 0x20] {
                let mut bytes = NOTE.as_bytes().to_vec();
                bytes[at] ^= flip;
                if let Ok(changed) = std::str::from_utf8(&bytes) {
                    assert!(open(changed, &keys).is_err(), "byte {at} ^ {flip}");
                }
            }
        }
    }

    #[test]
    fn a_note_has_bounds() {
        let form = |note: &str| match open(note, &[]) {
            Err(NoteError::Form(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(form(&"a".repeat(MAX_NOTE_BYTES)), "it has no blank line");
        assert_eq!(form(&"a".repeat(MAX_NOTE_BYTES + 1)), "it is too long");
        let line = "\u{2014} Someone AAAAAAAAAAA=\n";
        let signed = |count| format!("text\n\n{}", line.repeat(count));
        assert!(
            matches!(open(&signed(100), &[]), Err(NoteError::Unsigned { signers }) if signers.len() == 100)
        );
        assert_eq!(form(&signed(101)), "it has too many signatures");
        assert_eq!(form("text\n\n\u{2014} Someone AAAAAAAAAAA="), "its last line has no line feed");
        assert_eq!(form("text\n\n\u{2014} Someone AAAA\n"), "a signature line is broken");
        assert_eq!(form("te\txt\n\n"), "it holds a control character");
    }

    #[test]
    fn a_key_is_read_only_whole() {
        for at in 0..KEY.len() {
            let mut bytes = KEY.as_bytes().to_vec();
            bytes[at] ^= 1;
            let Ok(changed) = std::str::from_utf8(&bytes) else { continue };
            assert!(VerifierKey::parse(changed).is_err(), "{changed}");
        }
        assert_eq!(VerifierKey::parse("a+b"), Err(VerifierKeyError::Form));
        assert_eq!(VerifierKey::parse(&KEY.replace("Peter", "Peter ")), Err(VerifierKeyError::Name));
    }
}
