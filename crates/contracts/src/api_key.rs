//! API keys of the server as the ledger records them, so that it can be proved who could do what at a given time. A grant
//! holds the digest of its token, never the token. Entries count by their client key: keys that start with `crealeph:` were
//! always reserved.

use crate::contract::read_own;
use crate::digest::Blake3;
use crate::instant::Timestamp;
use crate::json::JsonObject;
use crate::scalar::{ClientKey, KeyId, Literal, RobotId, Text};
use crate::shape::{object, words};
use crate::violation::Violation;

/// The module under which grants and revocations are recorded.
pub const ACCESS: Literal = Literal::new("crealeph-access");
/// The type of a grant's entry.
pub const KEY_GRANT: Literal = Literal::new("key_grant");
/// The type of a revocation's entry.
pub const KEY_REVOCATION: Literal = Literal::new("key_revocation");
/// How the client key of a grant's entry begins; the id of the API key follows.
const GRANT_PREFIX: &str = "crealeph:api-key:";
/// The same of a revocation's entry.
const REVOCATION_PREFIX: &str = "crealeph:api-key-revoked:";
/// The largest payload that is read.
const MAX_BYTES: usize = 64 << 10;

words! {
    /// What the holder of a key may do.
    KeyRole {
        /// Reads evidence.
        Reader = "reader",
        /// Reads, appends entries, and submits verdicts that people signed.
        Writer = "writer",
        /// The same, runs the Builder, and reports receipts of work runs.
        Operator = "operator",
        /// Reads, and sees who may do what.
        Auditor = "auditor",
        /// Manages keys, signers, people and rules, and reads no evidence.
        Admin = "admin",
    }
}

object! {
    /// What a new API key is for, as a client of the server asks for it.
    KeyRequest / KeyRequestParts ["key_request", "R4"] {
        /// What it allows.
        role: KeyRole = "role",
        /// The robot that it is restricted to.
        robot_id: Option<RobotId> = "robotId",
        /// What it is for.
        label: Option<Text> = "label",
        /// When it ends.
        expires: Option<Timestamp> = "expires",
        /// The client's own name for this request: sent again, it grants no second key.
        client_key: Option<ClientKey> = "clientKey",
    }
}

impl KeyRequest {
    /// Reads a request strictly, or says everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_BYTES, "R4")
    }
}

object! {
    /// An API key was granted: the payload of the entry.
    KeyGrant / KeyGrantParts ["key_grant", "R4"] {
        /// Its id, which is no secret.
        key_id: KeyId = "keyId",
        /// What it allows.
        role: KeyRole = "role",
        /// The robot that it is restricted to.
        robot_id: Option<RobotId> = "robotId",
        /// What it is for.
        label: Option<Text> = "label",
        /// When it ends.
        expires: Option<Timestamp> = "expires",
        /// The BLAKE3 of the token.
        token_digest: Blake3 = "tokenDigest",
    }
}

object! {
    /// An API key was revoked: the payload of the entry.
    KeyRevocation / KeyRevocationParts ["key_revocation", "R4"] {
        /// Which key.
        key_id: KeyId = "keyId",
        /// Why.
        reason: Option<Text> = "reason",
    }
}

/// What an entry about API keys says.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessEntry {
    /// A key was granted.
    Grant(KeyGrant),
    /// A key was revoked.
    Revocation(KeyRevocation),
}

impl AccessEntry {
    /// Reads the payload of an entry of this type.
    ///
    /// # Errors
    /// The first problem.
    pub fn read(kind: &str, payload: &JsonObject) -> Result<Self, String> {
        let bytes = payload.as_str().as_bytes();
        let read = if kind == KEY_GRANT.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(AccessEntry::Grant)
        } else if kind == KEY_REVOCATION.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(AccessEntry::Revocation)
        } else {
            return Err("is of a type that API keys do not have".to_owned());
        };
        read.map_err(|violations| {
            let first = violations.first().map_or_else(String::new, ToString::to_string);
            format!("is about an API key and cannot be read: {first}")
        })
    }

    /// The key that it is about.
    pub fn key_id(&self) -> &KeyId {
        match self {
            AccessEntry::Grant(grant) => &grant.key_id,
            AccessEntry::Revocation(revocation) => &revocation.key_id,
        }
    }

    /// The client key of its entry, by which it is found; only one entry has it.
    pub fn client_key(&self) -> String {
        match self {
            AccessEntry::Grant(grant) => grant_key(&grant.key_id),
            AccessEntry::Revocation(revocation) => revocation_key(&revocation.key_id),
        }
    }
}

/// The client key of the entry that grants an API key.
pub fn grant_key(id: &KeyId) -> String {
    format!("{GRANT_PREFIX}{id}")
}

/// The client key of the entry that revokes an API key.
pub fn revocation_key(id: &KeyId) -> String {
    format!("{REVOCATION_PREFIX}{id}")
}

/// Whether a client key is one of an entry about API keys.
pub fn is_access_key(key: &str) -> bool {
    key.starts_with(GRANT_PREFIX) || key.starts_with(REVOCATION_PREFIX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_grant_has_exactly_its_fields() {
        let digest = "0".repeat(64);
        let text = format!(r#"{{"keyId":"a1","role":"reader","tokenDigest":"{digest}"}}"#);
        let read = |text: &str| AccessEntry::read("key_grant", &JsonObject::parse(text).unwrap());
        let entry = read(&text).unwrap();
        assert_eq!(entry.client_key(), "crealeph:api-key:a1");
        assert!(is_access_key(&entry.client_key()));
        for (from, to) in [
            ("reader", "root"),
            (r#""keyId":"a1","#, ""),
            (r#""role""#, r#""token":"secret","role""#),
            (&digest, "00"),
        ] {
            assert!(read(&text.replace(from, to)).is_err(), "{from}");
        }
        assert!(AccessEntry::read("signal", &JsonObject::empty()).is_err());
    }
}
