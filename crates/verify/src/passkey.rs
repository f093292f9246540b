//! Passkeys (Web Authentication, level 3) as an outsider checks them: the claims of a browser and an authenticator, from their
//! bytes. ES256, EdDSA (Ed25519) and RS256. Attestation is only read for the key: the maker of an authenticator is not judged.
//!
//! Reading is total: any bytes are read or refused. Signed data counts byte for byte, so nothing is written again.

use ciborium::Value;
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::json::{Limits, Node, parse};
use crealeph_contracts::passkey::{
    AuthenticatorFacts, EncodedBytes, MAX_PASSKEY_BYTES, PasskeyAssertion, PasskeyOrigin, challenge,
    passkey_id,
};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// The longest id of a credential that WebAuthn allows.
const MAX_CREDENTIAL_BYTES: usize = 1_023;
/// How deep CBOR may nest.
const MAX_CBOR_DEPTH: usize = 16;
/// The id of an authenticator's model, which is not checked.
const AAGUID_BYTES: usize = 16;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const ATTESTED: u8 = 0x40;
const EXTENDED: u8 = 0x80;

/// Why a passkey proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PasskeyError {
    /// A part is not what browsers and authenticators write.
    #[error("the {what} cannot be read: {why}")]
    Form {
        /// The part.
        what: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// A kind of key that is not accepted.
    #[error("the passkey has an unsupported algorithm; use ES256, EdDSA with Ed25519 or RS256")]
    Algorithm,
    /// Made for another purpose.
    #[error("the browser was asked for `{found}`, and `{expected}` is needed")]
    Purpose {
        /// What it says.
        found: String,
        /// What it must say.
        expected: &'static str,
    },
    /// Made for another statement.
    #[error("the passkey was asked about another statement, or the statement was changed")]
    Challenge,
    /// Made on a page of another site.
    #[error("the page that asked is at `{found}`, and the passkey is for `{expected}`")]
    Origin {
        /// Where it was made.
        found: String,
        /// Where it must be made.
        expected: String,
    },
    /// Made inside a page of another site.
    #[error("the page that asked was inside a page of another site")]
    Framed,
    /// Made for another relying party.
    #[error("the authenticator answered for another relying party than `{0}`")]
    RelyingParty(String),
    /// The user was not present.
    #[error("no one touched the authenticator")]
    NotPresent,
    /// The user was not verified.
    #[error("the authenticator saw no PIN, face or finger")]
    NotVerified,
    /// By another passkey.
    #[error("it is by another passkey than the statement names")]
    OtherPasskey,
    /// The signature does not match.
    #[error("the signature does not match: it, the client data or the authenticator data was changed")]
    Mismatch,
}

/// A public key of a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Es256 { point: Vec<u8> },
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
    Rs256 { modulus: Vec<u8>, exponent: Vec<u8> },
}

/// A passkey that a person can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    key: PublicKey,
    /// Its id.
    pub key_id: String,
    /// The authenticator's id for it.
    pub credential_id: EncodedBytes,
    /// Its public key, a COSE_Key.
    pub public_key: EncodedBytes,
}

impl Passkey {
    /// Its algorithm, as JOSE names it.
    pub fn algorithm(&self) -> &'static str {
        match self.key {
            PublicKey::Es256 { .. } => "ES256",
            PublicKey::Ed25519(_) => "EdDSA",
            PublicKey::Rs256 { .. } => "RS256",
        }
    }
}

/// A new passkey, and the count with which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPasskey {
    /// The passkey.
    pub passkey: Passkey,
    /// The count of its signatures so far.
    pub counter: u32,
    data: AuthenticatorData,
}

/// The request that the browser must have received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) statement: &'a str,
    pub(crate) origin: &'a PasskeyOrigin,
}

/// Reads the passkey out of an attestation object.
///
/// # Errors
/// If it is invalid, or of an algorithm that is not accepted.
pub fn read_new_passkey(attestation_object: &[u8]) -> Result<NewPasskey, PasskeyError> {
    let bad = |why| PasskeyError::Form { what: "attestation object", why };
    let Ok((Value::Map(members), [])) = cbor(attestation_object) else {
        return Err(bad("it is not one CBOR map"));
    };
    let mut named = members.iter().filter(|(name, _)| name.as_text() == Some("authData"));
    let (Some((_, Value::Bytes(data))), None) = (named.next(), named.next()) else {
        return Err(bad("it has no `authData`"));
    };
    let data = AuthenticatorData::read(data)?;
    let (credential_id, public_key) = data.attested.clone().ok_or_else(|| bad("it holds no new key"))?;
    let passkey = Passkey {
        key: PublicKey::read(public_key.as_slice())?,
        key_id: passkey_id(public_key.as_slice()),
        credential_id,
        public_key,
    };
    Ok(NewPasskey { passkey, counter: data.counter, data })
}

impl NewPasskey {
    /// Checks that the passkey was made for a statement.
    pub(crate) fn check(&self, asked: Asked<'_>, client_data: &[u8]) -> Result<(), PasskeyError> {
        asked.check_client_data(client_data, "webauthn.create")?;
        self.data.check(asked.origin)
    }
}

/// Checks that a passkey has proved a statement: the signature, and everything that it covers.
///
/// # Errors
/// The first problem.
pub(crate) fn check_assertion(
    passkey: &Passkey,
    asked: Asked<'_>,
    assertion: &PasskeyAssertion,
    signature: &str,
) -> Result<AuthenticatorFacts, PasskeyError> {
    if assertion.credential_id != passkey.credential_id {
        return Err(PasskeyError::OtherPasskey);
    }
    let client_data = assertion.client_data_json.as_slice();
    asked.check_client_data(client_data, "webauthn.get")?;
    let written = assertion.authenticator_data.as_slice();
    let data = AuthenticatorData::read(written)?;
    data.check(asked.origin)?;
    let form = PasskeyError::Form { what: "signature", why: "it is not base64url without padding" };
    let signature = EncodedBytes::parse(signature).ok_or(form)?;
    let signed = [written, Sha256::of(client_data).as_bytes()].concat();
    match passkey.key.has_signed(&signed, signature.as_slice()) {
        true => Ok(AuthenticatorFacts {
            credential_id: passkey.credential_id.clone(),
            origin: asked.origin.as_str().to_owned(),
            is_user_verified: data.has(USER_VERIFIED),
            is_backup_eligible: data.has(BACKUP_ELIGIBLE),
            is_backed_up: data.has(BACKED_UP),
            counter: data.counter,
        }),
        false => Err(PasskeyError::Mismatch),
    }
}

impl Asked<'_> {
    /// Checks the browser's record of its request. Unknown members are allowed: browsers add some.
    fn check_client_data(self, bytes: &[u8], purpose: &'static str) -> Result<(), PasskeyError> {
        let bad = |why| PasskeyError::Form { what: "client data", why };
        let (document, faults) = parse(bytes, &Limits::outside(MAX_PASSKEY_BYTES));
        let document = document.filter(|_| faults.is_empty()).ok_or_else(|| bad("it is not JSON"))?;
        let member = |name: &str| document.root().member(name);
        let text = |name: &str| member(name).and_then(Node::string);
        let shown = |found: &str| found.chars().take(100).flat_map(char::escape_debug).collect::<String>();
        let found = text("type").ok_or_else(|| bad("it has no `type`"))?;
        if found != purpose {
            return Err(PasskeyError::Purpose { found: shown(&found), expected: purpose });
        }
        let found = text("challenge").ok_or_else(|| bad("it has no `challenge`"))?;
        if found != challenge(self.statement) {
            return Err(PasskeyError::Challenge);
        }
        let found = text("origin").ok_or_else(|| bad("it has no `origin`"))?;
        if found != self.origin.as_str() {
            let expected = self.origin.as_str().to_owned();
            return Err(PasskeyError::Origin { found: shown(&found), expected });
        }
        let is_framed = match member("crossOrigin") {
            Some(node) => node.boolean().ok_or_else(|| bad("`crossOrigin` is neither true nor false"))?,
            None => false,
        };
        match is_framed || member("topOrigin").is_some() {
            true => Err(PasskeyError::Framed),
            false => Ok(()),
        }
    }
}

/// The authenticator's data, as it signs it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AuthenticatorData {
    relying_party_hash: [u8; 32],
    flags: u8,
    counter: u32,
    /// A new credential: its id and its key.
    attested: Option<(EncodedBytes, EncodedBytes)>,
}

impl AuthenticatorData {
    fn read(bytes: &[u8]) -> Result<Self, PasskeyError> {
        let bad = |why| PasskeyError::Form { what: "authenticator data", why };
        let short = || bad("it is cut off");
        let (hash, rest) = bytes.split_first_chunk::<32>().ok_or_else(short)?;
        let (flags, rest) = rest.split_first().ok_or_else(short)?;
        let (counter, mut rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let mut attested = None;
        if flags & ATTESTED != 0 {
            let (_, after) = rest.split_first_chunk::<AAGUID_BYTES>().ok_or_else(short)?;
            let (length, after) = after.split_first_chunk::<2>().ok_or_else(short)?;
            let length = usize::from(u16::from_be_bytes(*length));
            if !(1..=MAX_CREDENTIAL_BYTES).contains(&length) {
                return Err(bad("its credential id is not of 1 to 1,023 bytes"));
            }
            let (id, after) = after.split_at_checked(length).ok_or_else(short)?;
            let (_, left) = cbor(after).map_err(|()| bad("its key is not CBOR"))?;
            let key = after.get(..after.len() - left.len()).ok_or_else(short)?;
            let bytes = |bytes: &[u8]| EncodedBytes::new(bytes.to_vec()).ok_or_else(short);
            attested = Some((bytes(id)?, bytes(key)?));
            rest = left;
        }
        if flags & EXTENDED != 0 {
            let Ok((Value::Map(_), left)) = cbor(rest) else {
                return Err(bad("its extensions are not a CBOR map"));
            };
            rest = left;
        }
        match rest.is_empty() {
            true => Ok(AuthenticatorData {
                relying_party_hash: *hash,
                flags: *flags,
                counter: u32::from_be_bytes(*counter),
                attested,
            }),
            false => Err(bad("it has trailing bytes")),
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn check(&self, origin: &PasskeyOrigin) -> Result<(), PasskeyError> {
        let party = origin.relying_party();
        if self.relying_party_hash != *Sha256::of(party.as_bytes()).as_bytes() {
            return Err(PasskeyError::RelyingParty(party.to_owned()));
        }
        match () {
            () if !self.has(USER_PRESENT) => Err(PasskeyError::NotPresent),
            () if !self.has(USER_VERIFIED) => Err(PasskeyError::NotVerified),
            () if self.has(BACKED_UP) && !self.has(BACKUP_ELIGIBLE) => {
                Err(PasskeyError::Form { what: "authenticator data", why: "it is backed up and cannot be" })
            }
            () => Ok(()),
        }
    }
}

impl PublicKey {
    /// Reads a COSE_Key that has exactly the members of its algorithm.
    fn read(bytes: &[u8]) -> Result<Self, PasskeyError> {
        let bad = |why| PasskeyError::Form { what: "public key", why };
        let Ok((Value::Map(members), [])) = cbor(bytes) else {
            return Err(bad("it is not one CBOR map"));
        };
        let labelled =
            |label: i64| members.iter().find(|(name, _)| *name == Value::from(label)).map(|(_, value)| value);
        let is = |label: i64, value: i64| labelled(label) == Some(&Value::from(value));
        let bytes = |label: i64| labelled(label).and_then(Value::as_bytes);
        let (key, count) = if is(1, 2) && is(3, -7) && is(-1, 1) {
            let coordinate = |label| bytes(label).filter(|bytes| bytes.len() == 32);
            let (Some(x), Some(y)) = (coordinate(-2), coordinate(-3)) else {
                return Err(bad("a coordinate is not of 32 bytes"));
            };
            (PublicKey::Es256 { point: [&[4], x.as_slice(), y.as_slice()].concat() }, 5)
        } else if is(1, 1) && is(3, -8) && is(-1, 6) {
            let key = bytes(-2).and_then(|key| <[u8; 32]>::try_from(key.as_slice()).ok());
            let key = key.and_then(|key| ed25519_dalek::VerifyingKey::from_bytes(&key).ok());
            let key = key.filter(|key| !key.is_weak()).ok_or_else(|| bad("it is not an Ed25519 key"))?;
            (PublicKey::Ed25519(Box::new(key)), 4)
        } else if is(1, 3) && is(3, -257) {
            let (Some(modulus), Some(exponent)) = (bytes(-1), bytes(-2)) else {
                return Err(bad("it is not an RSA key"));
            };
            (PublicKey::Rs256 { modulus: modulus.clone(), exponent: exponent.clone() }, 4)
        } else {
            return Err(PasskeyError::Algorithm);
        };
        match members.len() == count {
            true => Ok(key),
            false => Err(bad("it has members that its algorithm does not")),
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            PublicKey::Es256 { point } => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok()
            }
            PublicKey::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
            PublicKey::Rs256 { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
        }
    }
}

/// The first CBOR value, and the bytes after it.
fn cbor(bytes: &[u8]) -> Result<(Value, &[u8]), ()> {
    let mut rest = bytes;
    let value = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_CBOR_DEPTH);
    value.map(|value| (value, rest)).map_err(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const MESSAGE: &[u8] = b"authenticator data and the digest of client data";
    /// A signature over the message by the key of this modulus, made with OpenSSL.
    const SIGNATURE: &str = "Co_1tWfVsQMy5b5CC-qPI709R4sw5OjB7HoZpsPpyNezbbOJWk8oZlEeEZTUXKTIX-EBdgvMkCqdyro9Qrp7WjeSnWgX8wV7_VH5aVR6AbN0g3JYu4ByVLW2EOuc5jruOOt0FGiZKDk2S5RnU542MsMlqgQxTyyzurs9LdPa9j5VgWpn07Fv0HCUjsk-S-wpcxhZQSKIRdXNNf8WwWhB9_q0joLFY4SSILvSky_U0Ty1KziWsg_KEQTdxhrbcnNVuD6meoI_vHNmvp5PHZ1U7Cd-9apF5wi1EfFm58WbNp_9bTrWAI6RkCVu16RQF0bwoaKQr7au8dUxb0xu43kcJw";
    const MODULUS: &str = "9LWNQHQ1v6-TIufLN8Wju9Po7NaCBPNc7eX89qtAvvZz8JIzqtxmHXu4TZ1Ws3S0nkJd6UTJPCT15nk4xe0b7dk9QNXjqG410W1dEORZ8C_r70xHTGCU2LsiNrmjRnq_9tD87x5kwYuXjZw7rmzSIG1kZ-kqJXaf7S8_8MrMrTc5CynWpYKanJdDdhUFPVRNedCl1I34u39mH4S7nwOm9tJFWlaLCeTYMJWAi2nwWN7N3pV5k7HUnvinJBDlivjbG1N7ojfB7iZ4IzJ-KnBQMWOWEjz4ZppmQ732MLEG5WbzZnn6fB2xH5_uRAxVSq48j0Q_UfNGuHEuXwIBPWGFDQ";

    fn bytes(text: &str) -> Vec<u8> {
        EncodedBytes::parse(text).unwrap().as_slice().to_vec()
    }

    fn cose(members: &[(i64, Value)]) -> Vec<u8> {
        let members = members.iter().map(|(label, value)| (Value::from(*label), value.clone()));
        let mut out = Vec::new();
        ciborium::into_writer(&Value::Map(members.collect()), &mut out).unwrap();
        out
    }

    #[test]
    fn an_rsa_key_is_read_and_its_signature_holds_for_one_message() {
        let exponent = Value::Bytes(vec![1, 0, 1]);
        let members = [(1, 3.into()), (3, (-257).into()), (-1, Value::Bytes(bytes(MODULUS))), (-2, exponent)];
        let key = PublicKey::read(&cose(&members)).unwrap();
        let signature = bytes(SIGNATURE);
        assert!(key.has_signed(MESSAGE, &signature));
        assert!(!key.has_signed(b"another", &signature));
        for at in 0..signature.len() {
            let mut changed = signature.clone();
            *changed.get_mut(at).unwrap() ^= 1;
            assert!(!key.has_signed(MESSAGE, &changed), "byte {at}");
        }
    }

    #[test]
    fn a_key_has_the_members_of_its_algorithm_and_no_other() {
        let coordinate = || Value::Bytes(vec![7; 32]);
        let members = |curve: i64, algorithm: i64| {
            vec![
                (1, 2.into()),
                (3, algorithm.into()),
                (-1, curve.into()),
                (-2, coordinate()),
                (-3, coordinate()),
            ]
        };
        assert!(PublicKey::read(&cose(&members(1, -7))).is_ok());
        assert_eq!(PublicKey::read(&cose(&members(2, -7))), Err(PasskeyError::Algorithm), "another curve");
        assert_eq!(PublicKey::read(&cose(&members(1, -35))), Err(PasskeyError::Algorithm), "another hash");
        let form = |why| Err(PasskeyError::Form { what: "public key", why });
        let more = [members(1, -7), vec![(4, 1.into())]].concat();
        assert_eq!(PublicKey::read(&cose(&more)), form("it has members that its algorithm does not"));
        let twice = [members(1, -7), vec![(1, 2.into())]].concat();
        assert_eq!(PublicKey::read(&cose(&twice)), form("it has members that its algorithm does not"));
        let mut short = members(1, -7);
        short.pop();
        short.push((-3, Value::Bytes(vec![7; 31])));
        assert_eq!(PublicKey::read(&cose(&short)), form("a coordinate is not of 32 bytes"));
        let weak = [(1, 1.into()), (3, (-8).into()), (-1, 6.into()), (-2, Value::Bytes(vec![0; 32]))];
        assert_eq!(PublicKey::read(&cose(&weak)), form("it is not an Ed25519 key"));
        let mut behind = cose(&members(1, -7));
        behind.push(0);
        assert_eq!(PublicKey::read(&behind), form("it is not one CBOR map"));
    }

    #[test]
    fn authenticator_data_has_no_trailing_bytes() {
        let head = |flags: u8| [&[0; 32][..], &[flags], &[0, 0, 0, 9]].concat();
        assert_eq!(AuthenticatorData::read(&head(1)).unwrap().counter, 9);
        let refused = |bytes: Vec<u8>, said: &str| {
            let why = AuthenticatorData::read(&bytes).unwrap_err().to_string();
            assert!(why.contains(said), "{why}");
        };
        refused(head(1).into_iter().take(36).collect(), "cut off");
        refused([head(1), vec![0]].concat(), "has trailing bytes");
        refused(head(1 | EXTENDED), "extensions are not a CBOR map");
        refused([head(1 | EXTENDED), vec![0x80]].concat(), "extensions are not a CBOR map");
        assert!(AuthenticatorData::read(&[head(1 | EXTENDED), vec![0xa0]].concat()).is_ok());
        refused([head(1 | ATTESTED), vec![0; 18]].concat(), "1 to 1,023 bytes");
        refused([head(1 | ATTESTED), vec![0; 16], vec![4, 0], vec![0; 1_024]].concat(), "1 to 1,023 bytes");
        refused([head(1 | ATTESTED), vec![0; 16], vec![0, 1], vec![0, 0xff]].concat(), "its key is not CBOR");
    }
}
