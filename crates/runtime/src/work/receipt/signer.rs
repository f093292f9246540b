//! Who signs a workspace's receipts: its keys, and the name they sign under. Owns the DSSE envelope; a secret never leaves
//! the keyring.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::attestation::PAYLOAD_TYPE;
use crealeph_contracts::json::{Limits, Node, ObjectWriter, parse};
use crealeph_contracts::scalar::Name;
use crealeph_ledger::{Keyring, SigningKeyError};

/// How the name of every workspace begins that signs receipts.
pub const NAME_PREFIX: &str = "crealeph-workspace/";
const NAME_FILE: &str = "name";
/// Longer than any name that is written here.
const MAX_NAME_BYTES: usize = 128;

/// The largest envelope that is read back.
const MAX_ENVELOPE_BYTES: usize = 16 << 20;

/// The keys of a workspace and the name they sign under.
#[derive(Debug)]
pub struct Signer {
    name: Name,
    keys: Keyring,
}

/// Why a workspace cannot sign.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// No run has signed anything yet.
    #[error("there has been no run in `{}`, so there are no keys; give the public key that you saved with --key", .0.display())]
    Missing(PathBuf),
    /// Its keys.
    #[error(transparent)]
    Keys(#[from] SigningKeyError),
    /// Its name.
    #[error("cannot read or create the workspace's name `{}`; fix its permissions", .path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file does not contain a name.
    #[error("`{}` does not contain a workspace's name; restore it from a copy, because the receipts are signed under it", .0.display())]
    Damaged(PathBuf),
}

impl Signer {
    /// The signer of the workspace whose `.crealeph` this is, with the keys of a folder. The first name and the first
    /// key are made if there are none.
    ///
    /// # Errors
    /// When name or keys cannot be read or made, or others can read the keys.
    pub fn open(control: &Path, keys: &Path) -> Result<Self, SignerError> {
        let name = name_of(control)?;
        let keys = match Keyring::load(keys) {
            Err(SigningKeyError::Missing { .. }) => Keyring::create(keys)?,
            loaded => loaded?,
        };
        Ok(Signer { name, keys })
    }

    /// The signer that is there already.
    ///
    /// # Errors
    /// When it has no name or keys yet, or others can read the keys.
    pub fn known(control: &Path, keys: &Path) -> Result<Self, SignerError> {
        let path = control.join(NAME_FILE);
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SignerError::Missing(control.to_owned()),
            _ => SignerError::Name { path: path.clone(), source },
        })?;
        Ok(Signer { name: parse_name(&text).ok_or(SignerError::Damaged(path))?, keys: Keyring::load(keys)? })
    }

    /// Adds a key, which signs from now on in addition to the others.
    ///
    /// # Errors
    /// When the key cannot be made.
    pub fn rotate(control: &Path, keys: &Path) -> Result<Self, SignerError> {
        Ok(Signer { name: name_of(control)?, keys: Keyring::create(keys)? })
    }

    /// The name that the keys sign under.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The public keys as a verifier takes them, oldest first.
    pub fn verifier_keys(&self) -> Vec<String> {
        self.keys.verifier_keys(self.name.as_str())
    }

    /// What the signatures are known by, in their order.
    pub(super) fn key_ids(&self) -> Vec<String> {
        self.keys.key_ids(self.name.as_str())
    }

    /// A statement in a DSSE envelope, canonical, signed by every key.
    pub(super) fn envelope(&self, statement: &str) -> String {
        self.envelope_of(PAYLOAD_TYPE, statement)
    }

    /// A text of any type in a DSSE envelope, canonical, signed by every key.
    pub(in crate::work) fn envelope_of(&self, kind: &str, body: &str) -> String {
        let signatures = self.keys.signatures(&pre_authentication(kind, body));
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        object.text("payload", &STANDARD.encode(body)).text("payloadType", kind);
        let list = object.key("signatures");
        for (position, (id, signature)) in self.key_ids().iter().zip(signatures).enumerate() {
            list.push(if position == 0 { '[' } else { ',' });
            let mut entry = ObjectWriter::new(list);
            entry.text("keyid", id).text("sig", &STANDARD.encode(signature));
            entry.end();
        }
        list.push(']');
        object.end();
        text
    }
}

impl Signer {
    /// The text in an envelope of our own, if one of these keys has signed it as this type. A signature is checked by making
    /// it again, which for Ed25519 gives the same bytes.
    pub(in crate::work) fn signed_text(&self, kind: &str, envelope: &[u8]) -> Option<String> {
        let (document, faults) = parse(envelope, &Limits::own(MAX_ENVELOPE_BYTES));
        let document = document.filter(|_| faults.is_empty())?;
        let text = |node: Node<'_>, key: &str| node.member(key).and_then(Node::string).map(Cow::into_owned);
        let root = document.root();
        let body = String::from_utf8(STANDARD.decode(text(root, "payload")?).ok()?).ok()?;
        let expected: Vec<(String, String)> = self
            .key_ids()
            .into_iter()
            .zip(self.keys.signatures(&pre_authentication(kind, &body)))
            .map(|(id, signature)| (id, STANDARD.encode(signature)))
            .collect();
        let mut signatures = root.member("signatures")?.elements();
        let is_ours = |entry: Node<'_>| {
            text(entry, "keyid").zip(text(entry, "sig")).is_some_and(|found| expected.contains(&found))
        };
        signatures.any(is_ours).then_some(body)
    }
}

/// What DSSE signs: lengths before contents, so that nothing can be taken for something else.
fn pre_authentication(kind: &str, body: &str) -> Vec<u8> {
    format!("DSSEv1 {} {kind} {} {body}", kind.len(), body.len()).into_bytes()
}

/// The name of a workspace: made once, random, so that it says nothing about it.
fn name_of(control: &Path) -> Result<Name, SignerError> {
    let path = control.join(NAME_FILE);
    let failed = |source| SignerError::Name { path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_name(control, &path).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    };
    parse_name(&text).ok_or(SignerError::Damaged(path))
}

fn parse_name(text: &str) -> Option<Name> {
    let name = text.trim_end();
    let is_one = name.starts_with(NAME_PREFIX) && name.len() <= MAX_NAME_BYTES;
    let is_plain = !name.contains(|c: char| c.is_whitespace() || c == '+');
    Name::parse(name).ok().filter(|_| is_one && is_plain)
}

fn make_name(control: &Path, path: &Path) -> io::Result<String> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{NAME_PREFIX}{digits}\n");
    let temporary = control.join(format!("{NAME_FILE}.{digits}"));
    let mut file = fs::File::create_new(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let named = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read_to_string(path),
        named => named.map(|()| text),
    }
}
