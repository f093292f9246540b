//! Passkeys (WebAuthn) of people (R33): the invitation that an admin signs, what enrols a passkey by it, how a passkey proves a
//! verdict, and the statement of a sign-in. The challenge of a passkey is the SHA-256 of a statement's canonical text, and the type of a
//! statement is in it, so that none can be used as another kind.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::api_key::KeyRole;
use crate::digest::Sha256;
use crate::instant::Timestamp;
use crate::json::{Node, NodeKind, push_text};
use crate::scalar::{Literal, Name, TenantId, Text};
use crate::shape::{Set, Shape, object, scalar_parts, words, wrong_type};
use crate::uuid::Uuid;
use crate::violation::{Code, Report};

/// The type of the entry that enrols a passkey.
pub const PASSKEY_ENROLMENT: Literal = Literal::new("passkey_enrolment");
/// The size limit of anything that an authenticator or a browser gives.
pub const MAX_PASSKEY_BYTES: usize = 64 << 10;
/// The longest time that an invitation is valid.
pub const MAX_INVITATION_DAYS: u64 = 30;
/// For how many seconds a sign-in can be answered.
pub const SIGN_IN_SECONDS: u64 = 120;

const KEY_PREFIX: &str = "passkey:";
/// The longest name of a host.
const MAX_HOST_BYTES: usize = 253;

/// Bytes, written in base64url without padding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EncodedBytes(Vec<u8>);

impl EncodedBytes {
    /// Accepts bytes, if there are not too many.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (!bytes.is_empty() && bytes.len() <= MAX_PASSKEY_BYTES).then_some(EncodedBytes(bytes))
    }

    /// Reads the one form in which they are written.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_PASSKEY_BYTES.div_ceil(3) * 4 {
            return None;
        }
        EncodedBytes::new(URL_SAFE_NO_PAD.decode(text).ok()?)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Display for EncodedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(&self.0))
    }
}

impl Shape for EncodedBytes {
    scalar_parts!();
    const EXPECTED: &'static str = "1 to 65,536 bytes in base64url without padding";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let bytes = EncodedBytes::parse(&node.text_value());
        if bytes.is_none() {
            report.at(node, clause, Code::BadForm, || format!("expected {}", Self::EXPECTED));
        }
        bytes
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.to_string());
    }

    fn schema() -> Value {
        let most = MAX_PASSKEY_BYTES.div_ceil(3) * 4;
        json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$", "minLength": 2, "maxLength": most })
    }
}

/// Where a passkey is used, as browsers write an origin: `https://HOST[:PORT]`, or `http://localhost[:PORT]`. Its host is the
/// passkey's relying party.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PasskeyOrigin(Box<str>);

impl PasskeyOrigin {
    /// Reads an origin.
    ///
    /// # Errors
    /// Why browsers create no passkeys there.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (is_encrypted, site) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(site), _) => (true, site),
            (_, Some(site)) => (false, site),
            _ => return Err("an origin begins with `https://`, or with `http://` for localhost"),
        };
        let (host, port) = match site.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (site, None),
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        if host.len() > MAX_HOST_BYTES || !host.split('.').all(is_label) {
            return Err("an origin is a host name in lower case and a port, and nothing more");
        }
        if host.split('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err("browsers make no passkeys for an IP address; use `localhost` or a host name");
        }
        let is_local = host == "localhost" || host.ends_with(".localhost");
        if !is_encrypted && !is_local {
            return Err("browsers make passkeys over HTTPS, or at `http://localhost`");
        }
        let usual = if is_encrypted { "443" } else { "80" };
        let is_port = |port: &str| !port.starts_with(['0', '+']) && port.parse::<u16>().is_ok();
        match port {
            Some(port) if port == usual => Err("omit the scheme's default port, as browsers do"),
            Some(port) if !is_port(port) => Err("the port is a number from 1 to 65,535"),
            _ => Ok(PasskeyOrigin(text.into())),
        }
    }

    /// The origin.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The relying party: the origin's host.
    pub fn relying_party(&self) -> &str {
        let site = self.0.split_once("://").map_or(&*self.0, |(_, site)| site);
        site.split_once(':').map_or(site, |(host, _)| host)
    }
}

impl Shape for PasskeyOrigin {
    scalar_parts!();
    const EXPECTED: &'static str = "an origin, `https://HOST[:PORT]` or `http://localhost[:PORT]`";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        match PasskeyOrigin::parse(&node.text_value()) {
            Ok(origin) => Some(origin),
            Err(why) => {
                report.at(node, clause, Code::BadForm, || why.to_owned());
                None
            }
        }
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.0);
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^https?://[a-z0-9.-]+(:[0-9]+)?$", "maxLength": 270 })
    }
}

words! {
    /// The `type` of an invitation.
    InvitationType {
        /// The only one.
        Invitation = "person_invitation",
    }
}

words! {
    /// The `type` of a passkey's enrolment.
    PasskeyStatementType {
        /// The only one.
        Enrolment = "passkey_enrolment",
    }
}

words! {
    /// The `type` of a sign-in.
    SignInType {
        /// The only one.
        SignIn = "sign_in",
    }
}

object! {
    /// An admin invites a person to enrol one passkey; anyone who has the secret can, once. The groups hold from here on.
    InvitationStatement / InvitationStatementParts ["person_invitation", "R4"] {
        /// What the statement is.
        kind: InvitationType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// Who is invited.
        person: Name = "person",
        /// The groups the person is in, from here on.
        groups: Set<Name> = "groups",
        /// What the person may do in sessions that they sign in to with the passkey.
        role: KeyRole = "role",
        /// Where the passkey is used.
        origin: PasskeyOrigin = "origin",
        /// The SHA-256 of the secret in the link.
        secret_digest: Sha256 = "secretDigest",
        /// When it can no longer be used.
        expires: Timestamp = "expires",
        /// The admin who signs.
        signed_by: Name = "signedBy",
        /// The fingerprint of the admin's key.
        signer_key_id: Name = "signerKeyId",
        /// A random number; it counts once.
        nonce: Uuid = "nonce",
        /// When it was signed.
        time: Timestamp = "time",
    }
}

object! {
    /// What the challenge of a new passkey is the digest of.
    PasskeyStatement / PasskeyStatementParts ["passkey_enrolment", "R4"] {
        /// What the statement is.
        kind: PasskeyStatementType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// The nonce of the invitation.
        invitation: Uuid = "invitation",
        /// Whose passkey it will be.
        person: Name = "person",
        /// Where it is used.
        origin: PasskeyOrigin = "origin",
        /// When the server wrote it.
        time: Timestamp = "time",
    }
}

object! {
    /// A passkey was enrolled by an invitation: the payload of the entry, with everything that anyone needs to check it.
    PasskeyRecord / PasskeyRecordParts ["passkey_enrolment", "R4"] {
        /// What its challenge is the digest of.
        statement: PasskeyStatement = "statement",
        /// The secret of the invitation, used up by this.
        secret: Text = "secret",
        /// What the key is known by.
        key_id: Name = "keyId",
        /// What the authenticator knows the key by.
        credential_id: EncodedBytes = "credentialId",
        /// The public key, a COSE_Key.
        public_key: EncodedBytes = "publicKey",
        /// The attestation object of the authenticator.
        attestation_object: EncodedBytes = "attestationObject",
        /// What the browser says it was asked.
        client_data_json: EncodedBytes = "clientDataJson",
    }
}

object! {
    /// What proves a statement beside the signature of a passkey.
    PasskeyAssertion / PasskeyAssertionParts ["signed", "R4"] {
        /// The passkey, as its authenticator knows it.
        credential_id: EncodedBytes = "credentialId",
        /// What the authenticator says, as it signed it.
        authenticator_data: EncodedBytes = "authenticatorData",
        /// What the browser says it was asked; the authenticator signed its SHA-256.
        client_data_json: EncodedBytes = "clientDataJson",
    }
}

object! {
    /// What a passkey proves when somebody signs in.
    SignInStatement / SignInStatementParts ["sign_in", "R4"] {
        /// What the statement is.
        kind: SignInType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// The page that asks.
        origin: PasskeyOrigin = "origin",
        /// A random number; it counts once.
        nonce: Uuid = "nonce",
        /// When the server wrote it.
        time: Timestamp = "time",
    }
}

object! {
    /// Somebody who was invited asks what their authenticator is to be asked.
    PasskeyStart / PasskeyStartParts ["passkey_start", "R4"] {
        /// What the link has behind its `#`.
        token: Text = "token",
    }
}

object! {
    /// Somebody who was invited hands in what their authenticator made.
    PasskeyRequest / PasskeyRequestParts ["passkey_request", "R4"] {
        /// What the link has behind its `#`.
        token: Text = "token",
        /// The statement that the challenge is the digest of.
        statement: PasskeyStatement = "statement",
        /// The attestation object of the authenticator.
        attestation_object: EncodedBytes = "attestationObject",
        /// What the browser says it was asked.
        client_data_json: EncodedBytes = "clientDataJson",
    }
}

/// What an authenticator said about itself when it signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatorFacts {
    /// The passkey, as its authenticator knows it.
    pub credential_id: EncodedBytes,
    /// The page that asked, according to the browser.
    pub origin: String,
    /// It saw a PIN, a face or a finger.
    pub is_user_verified: bool,
    /// The passkey can be copied to other devices of its owner.
    pub is_backup_eligible: bool,
    /// It was copied.
    pub is_backed_up: bool,
    /// The count of its signatures; 0 if it does not count.
    pub counter: u32,
}

/// The challenge that a passkey signs to prove a statement: the SHA-256 of the statement's canonical text, as browsers write it.
pub fn challenge(statement: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::of(statement.as_bytes()).as_bytes())
}

/// The id of a passkey: the SHA-256 of its public key.
pub fn passkey_id(public_key: &[u8]) -> String {
    format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(Sha256::of(public_key).as_bytes()))
}

/// The name under which authenticators know a person of a tenant: nothing readable.
pub fn user_handle(tenant: &TenantId, person: &Name) -> EncodedBytes {
    let named = format!("{}\0{person}", tenant.as_str());
    EncodedBytes(Sha256::of(named.as_bytes()).as_bytes().to_vec())
}

/// The key of the entry that uses up an invitation; there is only one.
pub fn invitation_key(nonce: &Uuid) -> String {
    format!("crealeph:invitation:{nonce}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_what_a_browser_writes_and_makes_passkeys_for_is_an_origin() {
        for (good, host) in [
            ("https://team.example", "team.example"),
            ("https://a-b.team.example:8443", "a-b.team.example"),
            ("https://localhost", "localhost"),
            ("http://localhost:4114", "localhost"),
            ("http://a.localhost", "a.localhost"),
        ] {
            assert_eq!(PasskeyOrigin::parse(good).unwrap().relying_party(), host);
        }
        for (bad, said) in [
            ("team.example", "begins with"),
            ("ftp://team.example", "begins with"),
            ("http://team.example", "over HTTPS"),
            ("http://notlocalhost", "over HTTPS"),
            ("https://127.0.0.1:4114", "IP address"),
            ("http://127.0.0.1:4114", "IP address"),
            ("https://[::1]", "host name"),
            ("https://", "host name"),
            ("https://a..b", "host name"),
            ("https://Team.example", "lower case"),
            ("https://team.example/", "nothing more"),
            ("https://a@team.example", "nothing more"),
            ("https://team.example:443", "default port"),
            ("http://localhost:80", "default port"),
            ("http://localhost:", "the port"),
            ("http://localhost:0", "the port"),
            ("http://localhost:+1", "the port"),
            ("http://localhost:65536", "the port"),
        ] {
            let why = PasskeyOrigin::parse(bad).unwrap_err();
            assert!(why.contains(said), "{bad}: {why}");
        }
    }

    #[test]
    fn bytes_have_one_form_and_a_bound() {
        let most = EncodedBytes::new(vec![7; MAX_PASSKEY_BYTES]).unwrap();
        assert_eq!(EncodedBytes::parse(&most.to_string()), Some(most));
        let more = URL_SAFE_NO_PAD.encode(vec![7; MAX_PASSKEY_BYTES + 1]);
        for bad in ["", "A", "AA==", "AB", "+/+/", "AA AA", more.as_str()] {
            assert_eq!(EncodedBytes::parse(bad), None, "{}", bad.len());
        }
        assert_eq!(EncodedBytes::new(Vec::new()), None);
    }

    #[test]
    fn challenges_ids_and_handles_have_their_published_values() {
        // SHA-256 of nothing and of `t`, NUL, `ana`, in base64url.
        assert_eq!(challenge(""), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
        assert_eq!(passkey_id(b""), "passkey:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
        let named = |tenant: &str, person: &str| {
            user_handle(&TenantId::parse(tenant).unwrap(), &Name::parse(person).unwrap())
        };
        let handle = named("t", "ana");
        assert_eq!(handle.as_slice(), Sha256::of(b"t\0ana").as_bytes());
        assert_ne!(handle, named("ta", "na"), "tenant and person are kept apart");
    }

    #[test]
    fn a_host_has_at_most_253_bytes() {
        let origin = |length: usize| PasskeyOrigin::parse(&format!("https://{}", "a".repeat(length)));
        assert_eq!(origin(253).unwrap().as_str().len(), 8 + 253);
        assert!(origin(254).is_err());
    }

    #[test]
    fn the_longest_bytes_fit_their_schema() {
        let most = EncodedBytes::new(vec![7; MAX_PASSKEY_BYTES]).unwrap().to_string().len() as u64;
        let schema = EncodedBytes::schema();
        assert!((most..most + 4).contains(&schema["maxLength"].as_u64().unwrap()), "{schema}");
    }
}
