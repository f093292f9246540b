//! SSH keys of people and their signatures (SSHSIG, OpenSSH's PROTOCOL.sshsig): Ed25519, ECDSA on P-256 and P-384, and the
//! hardware keys `sk-ssh-ed25519` and `sk-ecdsa`. A signature counts for one namespace, one key and one text.

use ssh_key::public::KeyData;
use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};

/// The longest public key or armoured signature that is read.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// The flag of a hardware key: the user touched it.
const USER_PRESENT: u8 = 0x01;
/// The flag of a hardware key: the user entered its PIN, or was recognised.
const USER_VERIFIED: u8 = 0x04;
/// Flags and counter after the signature of a hardware key.
const TRAILER_BYTES: usize = 5;

/// A public key that a person can sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonKey {
    key: PublicKey,
    fingerprint: String,
}

/// Why a public key is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PersonKeyError {
    /// Not a key.
    #[error("it is not an OpenSSH public key: {0}")]
    Form(String),
    /// A private key.
    #[error("it is a private key; give its public half, the file that ends in `.pub`")]
    Private,
    /// A kind that is not accepted.
    #[error(
        "it is a key of type {0}; use Ed25519 (`ssh-keygen -t ed25519`), ECDSA on P-256 or P-384, or a hardware key (`-t ed25519-sk`)"
    )]
    Kind(String),
    /// A key under which signatures prove nothing.
    #[error("it is a weak key: anyone could forge its signatures")]
    Weak,
}

impl PersonKey {
    /// Reads one line of OpenSSH's form; a comment is dropped.
    ///
    /// # Errors
    /// If it is not such a key, or of a kind that is not accepted.
    pub fn parse(text: &str) -> Result<Self, PersonKeyError> {
        let text = text.trim();
        if text.starts_with("-----BEGIN") {
            return Err(PersonKeyError::Private);
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(PersonKeyError::Form("it is too long".to_owned()));
        }
        let mut key =
            PublicKey::from_openssh(text).map_err(|error| PersonKeyError::Form(error.to_string()))?;
        key.set_comment("");
        Self::of(key)
    }

    /// The key of the binary form, as an agent lists it.
    ///
    /// # Errors
    /// The same.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PersonKeyError> {
        let key = PublicKey::from_bytes(bytes).map_err(|error| PersonKeyError::Form(error.to_string()))?;
        Self::of(key)
    }

    fn of(key: PublicKey) -> Result<Self, PersonKeyError> {
        let ed25519 = match key.key_data() {
            KeyData::Ed25519(key) => Some(key),
            KeyData::SkEd25519(key) => Some(key.public_key()),
            KeyData::SkEcdsaSha2NistP256(_) => None,
            KeyData::Ecdsa(key) if key.curve() != ssh_key::EcdsaCurve::NistP521 => None,
            other => return Err(PersonKeyError::Kind(other.algorithm().to_string())),
        };
        if let Some(key) = ed25519 {
            let key = ed25519_dalek::VerifyingKey::from_bytes(key.as_ref());
            if key.is_ok_and(|key| key.is_weak()) {
                return Err(PersonKeyError::Weak);
            }
        }
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        Ok(PersonKey { key, fingerprint })
    }

    /// The key's fingerprint: `SHA256:` and its hash, as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The key's algorithm, `ssh-ed25519`.
    pub fn algorithm(&self) -> String {
        self.key.algorithm().to_string()
    }

    /// Whether it is in a hardware key.
    pub fn is_hardware(&self) -> bool {
        matches!(self.key.algorithm(), Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256)
    }

    /// The key on one line, without a comment.
    ///
    /// # Errors
    /// If it cannot be written, which does not happen to a key that was read.
    pub fn line(&self) -> Result<String, PersonKeyError> {
        let line = self.key.to_openssh().map_err(|error| PersonKeyError::Form(error.to_string()))?;
        Ok(line.trim_end().to_owned())
    }

    /// The binary form, as an agent knows it.
    ///
    /// # Errors
    /// The same.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PersonKeyError> {
        self.key.to_bytes().map_err(|error| PersonKeyError::Form(error.to_string()))
    }
}

/// The facts of a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureFacts {
    /// The count of a hardware key's signatures; `None` for other keys.
    pub counter: Option<u32>,
    /// A hardware key saw a PIN or a finger.
    pub is_user_verified: bool,
}

/// Why a signature proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Not a signature.
    #[error("it is not an SSH signature: {0}")]
    Form(String),
    /// Made for something else.
    #[error("the signature is for the namespace `{found}`, and `{expected}` is needed")]
    Namespace {
        /// What it was made for.
        found: String,
        /// What it must be made for.
        expected: &'static str,
    },
    /// Made by another key.
    #[error("the signature is by the key {found}, not by {expected}")]
    OtherKey {
        /// The key that made it.
        found: String,
        /// The key that the statement names.
        expected: String,
    },
    /// It does not match.
    #[error(
        "the signature does not match the statement: one of them was changed, or it was made over another text"
    )]
    Mismatch,
    /// A hardware key that no one touched.
    #[error("no one touched the hardware key when it signed")]
    NotPresent,
}

/// The fingerprint of the key that a signature names. It proves nothing.
///
/// # Errors
/// If it is not a signature.
pub fn claimed_signer(armoured: &str) -> Result<String, SignatureError> {
    let signature = read(armoured)?;
    Ok(signature.public_key().fingerprint(HashAlg::Sha256).to_string())
}

/// Checks that a key has signed a message for a namespace.
///
/// # Errors
/// What is wrong with it.
pub fn verify_signature(
    key: &PersonKey,
    namespace: &'static str,
    message: &[u8],
    armoured: &str,
) -> Result<SignatureFacts, SignatureError> {
    let signature = read(armoured)?;
    if signature.namespace() != namespace {
        let found = signature.namespace().chars().take(60).collect();
        return Err(SignatureError::Namespace { found, expected: namespace });
    }
    if signature.public_key() != key.key.key_data() {
        let found = signature.public_key().fingerprint(HashAlg::Sha256).to_string();
        return Err(SignatureError::OtherKey { found, expected: key.fingerprint.clone() });
    }
    key.key.verify(namespace, message, &signature).map_err(|_| SignatureError::Mismatch)?;
    if !key.is_hardware() {
        return Ok(SignatureFacts { counter: None, is_user_verified: false });
    }
    let trailer = signature.signature_bytes().last_chunk::<TRAILER_BYTES>();
    let Some(&[flags, a, b, c, d]) = trailer else {
        return Err(SignatureError::Form("flags and counter are missing".to_owned()));
    };
    if flags & USER_PRESENT == 0 {
        return Err(SignatureError::NotPresent);
    }
    let counter = Some(u32::from_be_bytes([a, b, c, d]));
    Ok(SignatureFacts { counter, is_user_verified: flags & USER_VERIFIED != 0 })
}

fn read(armoured: &str) -> Result<SshSig, SignatureError> {
    if armoured.len() > MAX_TEXT_BYTES {
        return Err(SignatureError::Form("it is too long".to_owned()));
    }
    SshSig::from_pem(armoured.trim_start()).map_err(|error| SignatureError::Form(error.to_string()))
}
