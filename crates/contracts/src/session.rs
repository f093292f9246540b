//! Sessions of the console as the ledger records them: a link that signs a user in once, a session, and its end. A session is
//! found by its client key, which is unique, so a link or a signed sign-in opens one session, on whichever server it arrives.
//! Sessions are recorded under the module of API keys ([`crate::api_key::ACCESS`]).

use crate::api_key::KeyRole;
use crate::contract::read_own;
use crate::digest::Blake3;
use crate::instant::Timestamp;
use crate::json::JsonObject;
use crate::scalar::{KeyId, Literal, Name, RobotId};
use crate::shape::object;

/// The type of a link's entry.
pub const SIGN_IN_LINK: Literal = Literal::new("sign_in_link");
/// The type of a session's entry.
pub const SESSION_GRANT: Literal = Literal::new("session_grant");
/// The type of the entry that ends a session.
pub const SESSION_END: Literal = Literal::new("session_end");
/// How the client key of a link's entry begins; its id follows.
const LINK_PREFIX: &str = "crealeph:sign-in-link:";
/// The same of a session's entry.
const SESSION_PREFIX: &str = "crealeph:session:";
/// The same of the entry that ends it.
const END_PREFIX: &str = "crealeph:session-ended:";
/// The largest payload that is read.
const MAX_BYTES: usize = 64 << 10;

object! {
    /// A link that opens one session: the payload of the entry.
    SignInLink / SignInLinkParts ["sign_in_link", "R4"] {
        /// Its id, which will be the session's.
        link_id: KeyId = "linkId",
        /// What the session allows.
        role: KeyRole = "role",
        /// The robot that the session is restricted to.
        robot_id: Option<RobotId> = "robotId",
        /// Until when it can be used.
        expires: Timestamp = "expires",
        /// The BLAKE3 of the token.
        token_digest: Blake3 = "tokenDigest",
    }
}

object! {
    /// A session was opened: the payload of the entry.
    SessionGrant / SessionGrantParts ["session_grant", "R4"] {
        /// Its id, which is no secret.
        session_id: KeyId = "sessionId",
        /// The API key that it was opened with; it ends with that.
        key_id: Option<KeyId> = "keyId",
        /// The person who opened it with a passkey.
        person: Option<Name> = "person",
        /// What it allows.
        role: KeyRole = "role",
        /// The robot that it is restricted to.
        robot_id: Option<RobotId> = "robotId",
        /// When it ends.
        expires: Timestamp = "expires",
        /// The BLAKE3 of the token.
        token_digest: Blake3 = "tokenDigest",
    }
}

object! {
    /// A session was ended before its time: the payload of the entry.
    SessionEnd / SessionEndParts ["session_end", "R4"] {
        /// Which.
        session_id: KeyId = "sessionId",
    }
}

/// What an entry about sessions says.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEntry {
    /// A link was made.
    Link(SignInLink),
    /// A session was opened.
    Grant(SessionGrant),
    /// A session was ended.
    End(SessionEnd),
}

impl SessionEntry {
    /// Reads the payload of an entry of this type.
    ///
    /// # Errors
    /// The first problem.
    pub fn read(kind: &str, payload: &JsonObject) -> Result<Self, String> {
        let bytes = payload.as_str().as_bytes();
        let read = if kind == SIGN_IN_LINK.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(SessionEntry::Link)
        } else if kind == SESSION_GRANT.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(SessionEntry::Grant)
        } else if kind == SESSION_END.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(SessionEntry::End)
        } else {
            return Err("is of a type that sessions do not have".to_owned());
        };
        read.map_err(|violations| {
            let first = violations.first().map_or_else(String::new, ToString::to_string);
            format!("is about a session and cannot be read: {first}")
        })
    }

    /// The link or session that it is about.
    pub fn id(&self) -> &KeyId {
        match self {
            SessionEntry::Link(link) => &link.link_id,
            SessionEntry::Grant(grant) => &grant.session_id,
            SessionEntry::End(end) => &end.session_id,
        }
    }

    /// The type of its entry.
    pub fn kind(&self) -> Literal {
        match self {
            SessionEntry::Link(_) => SIGN_IN_LINK,
            SessionEntry::Grant(_) => SESSION_GRANT,
            SessionEntry::End(_) => SESSION_END,
        }
    }

    /// The client key of its entry, by which it is found; only one entry has it.
    pub fn client_key(&self) -> String {
        match self {
            SessionEntry::Link(link) => link_key(&link.link_id),
            SessionEntry::Grant(grant) => session_key(&grant.session_id),
            SessionEntry::End(end) => session_end_key(&end.session_id),
        }
    }
}

/// The client key of a link's entry.
pub fn link_key(id: &KeyId) -> String {
    format!("{LINK_PREFIX}{id}")
}

/// The client key of the entry that opens a session.
pub fn session_key(id: &KeyId) -> String {
    format!("{SESSION_PREFIX}{id}")
}

/// The client key of the entry that ends a session.
pub fn session_end_key(id: &KeyId) -> String {
    format!("{END_PREFIX}{id}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_entry_has_exactly_its_fields_and_its_own_key() {
        let digest = "0".repeat(64);
        let link = format!(
            r#"{{"expires":"2026-01-02T00:00:00Z","linkId":"a","role":"reader","tokenDigest":"{digest}"}}"#
        );
        let session = link.replace("linkId", "sessionId");
        let end = r#"{"sessionId":"a"}"#.to_owned();
        let read = |kind: &str, text: &str| SessionEntry::read(kind, &JsonObject::parse(text).unwrap());
        let all = [("sign_in_link", &link), ("session_grant", &session), ("session_end", &end)];
        let mut keys = Vec::new();
        for (kind, text) in all {
            let entry = read(kind, text).unwrap();
            assert_eq!((entry.kind().as_str(), entry.id().as_str()), (kind, "a"));
            let key = entry.client_key();
            let is_own = |prefix: &&str| key.starts_with(*prefix);
            assert_eq!(
                [LINK_PREFIX, SESSION_PREFIX, END_PREFIX].into_iter().filter(is_own).count(),
                1,
                "{key}"
            );
            keys.push(entry.client_key());
            let others = all.iter().filter(|(other, _)| *other != kind);
            assert!(others.into_iter().all(|(other, _)| read(other, text).is_err()), "{kind}");
            assert!(read(kind, &text.replacen('{', r#"{"token":"x","#, 1)).is_err(), "{kind}");
        }
        keys.dedup();
        assert_eq!(keys.len(), 3);
        assert!(read("signal", &end).is_err());
    }
}
