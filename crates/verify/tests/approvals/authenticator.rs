//! An authenticator in software, for tests: creates passkeys and signs with them as WebAuthn says, or wrongly if a test asks for it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signer as _;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

pub(crate) const PRESENT_AND_VERIFIED: u8 = 0x05;
const ATTESTED: u8 = 0x40;

enum Key {
    Es256(Box<EcdsaKeyPair>),
    EdDsa(Box<ed25519_dalek::SigningKey>),
}

/// What the browser does around the authenticator; each field can be wrong.
#[derive(Clone)]
pub(crate) struct Page<'p> {
    pub(crate) origin: &'p str,
    pub(crate) relying_party: &'p str,
    pub(crate) challenge: &'p str,
    /// Members of the client data that replace the usual ones.
    pub(crate) client_data: Value,
}

impl<'p> Page<'p> {
    pub(crate) fn new(origin: &'p str, relying_party: &'p str, challenge: &'p str) -> Self {
        Page { origin, relying_party, challenge, client_data: json!({}) }
    }

    fn client_data(&self, purpose: &str) -> String {
        let mut data = json!({
            "type": purpose, "challenge": self.challenge, "origin": self.origin, "crossOrigin": false,
            "other_keys_can_be_added_here": "do not compare clientDataJSON against a template",
        });
        data.as_object_mut().unwrap().extend(self.client_data.as_object().unwrap().clone());
        data.to_string()
    }
}

/// One passkey and its authenticator.
pub(crate) struct Authenticator {
    key: Key,
    pub(crate) credential_id: Vec<u8>,
    /// What it says about the user and about copies.
    pub(crate) flags: u8,
    /// The count that its next signature says.
    pub(crate) counter: u32,
    /// CBOR that follows as extensions.
    pub(crate) extensions: Vec<u8>,
}

impl Authenticator {
    pub(crate) fn es256(credential_id: &str) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random).unwrap();
        Self::with(Key::Es256(Box::new(key)), credential_id)
    }

    pub(crate) fn eddsa(credential_id: &str) -> Self {
        let seed = digest(&SHA256, credential_id.as_bytes());
        let key = ed25519_dalek::SigningKey::from_bytes(seed.as_ref().try_into().unwrap());
        Self::with(Key::EdDsa(Box::new(key)), credential_id)
    }

    fn with(key: Key, credential_id: &str) -> Self {
        let credential_id = credential_id.as_bytes().to_vec();
        Authenticator { key, credential_id, flags: PRESENT_AND_VERIFIED, counter: 0, extensions: Vec::new() }
    }

    /// The public key, a COSE_Key.
    pub(crate) fn public_key(&self) -> Vec<u8> {
        match &self.key {
            Key::Es256(key) => {
                let (x, y) = key.public_key().as_ref().get(1..).unwrap().split_at(32);
                let head = [0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32];
                [&head[..], x, &[0x22, 0x58, 32], y].concat()
            }
            Key::EdDsa(key) => {
                let head = [0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32];
                [&head[..], key.verifying_key().as_bytes()].concat()
            }
        }
    }

    /// The id of the passkey.
    pub(crate) fn key_id(&self) -> String {
        format!("passkey:{}", encoded(digest(&SHA256, &self.public_key()).as_ref()))
    }

    fn data(&self, page: &Page<'_>, more: u8, attested: &[u8]) -> Vec<u8> {
        let hash = digest(&SHA256, page.relying_party.as_bytes());
        let flags = self.flags | more | if self.extensions.is_empty() { 0 } else { 0x80 };
        [hash.as_ref(), &[flags], &self.counter.to_be_bytes(), attested, &self.extensions].concat()
    }

    /// `navigator.credentials.create`: `attestationObject` and `clientDataJson`.
    pub(crate) fn create(&self, page: &Page<'_>) -> Value {
        let length = u16::try_from(self.credential_id.len()).unwrap().to_be_bytes();
        let attested = [&[0; 16][..], &length, &self.credential_id, &self.public_key()].concat();
        let object = attestation_object(&self.data(page, ATTESTED, &attested));
        json!({
            "attestationObject": encoded(&object),
            "clientDataJson": encoded(page.client_data("webauthn.create").as_bytes()),
        })
    }

    /// `navigator.credentials.get`: the signature, and the signed data.
    pub(crate) fn get(&self, page: &Page<'_>) -> (String, Value) {
        let client_data = page.client_data("webauthn.get");
        let data = self.data(page, 0, &[]);
        let message = [&data[..], digest(&SHA256, client_data.as_bytes()).as_ref()].concat();
        let signature = match &self.key {
            Key::Es256(key) => key.sign(&SystemRandom::new(), &message).unwrap().as_ref().to_vec(),
            Key::EdDsa(key) => key.sign(&message).to_bytes().to_vec(),
        };
        let assertion = json!({
            "credentialId": encoded(&self.credential_id), "authenticatorData": encoded(&data),
            "clientDataJson": encoded(client_data.as_bytes()),
        });
        (encoded(&signature), assertion)
    }

    /// A statement that the passkey has proved.
    pub(crate) fn prove(&self, page: &Page<'_>, statement: &Value) -> Value {
        let (signature, assertion) = self.get(page);
        json!({ "statement": statement, "proof": "passkey", "signature": signature, "passkey": assertion })
    }
}

/// CBOR: `{"fmt": "none", "attStmt": {}, "authData": …}`.
pub(crate) fn attestation_object(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59"[..], &length, data].concat()
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The challenge for a statement's canonical text.
pub(crate) fn challenge(text: &str) -> String {
    encoded(digest(&SHA256, text.as_bytes()).as_ref())
}
