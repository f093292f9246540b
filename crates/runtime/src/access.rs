//! API keys: granted, listed, revoked, and recognised. A key is an entry of its tenant's log, found by its id through an
//! index, so a revocation takes effect in every process as soon as it is written. The token itself is shown once and stored
//! nowhere: the log has only its digest.
//!
//! A token is `crealeph_TENANT.ID.SECRET`: the tenant's name in base64url, the key's id in hexadecimal, 256 random bits in
//! base64url. So the tenant comes from the credential alone.

mod recognised;
mod sessions;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crealeph_contracts::actor::Actor;
use crealeph_contracts::api_key::{
    ACCESS, AccessEntry, KEY_GRANT, KEY_REVOCATION, KeyGrant, KeyRequest, KeyRevocation, KeyRole, grant_key,
    revocation_key,
};
use crealeph_contracts::approval::{APPROVALS, SignedKind};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ClientKey, KeyId, LedgerId, Literal, Name, RobotId, TenantId, Text};
use crealeph_contracts::session::session_end_key;
use crealeph_decision::access::{KeyStanding, Permission, key_standing, permits};
use crealeph_ledger::{AppendedEntry, Cursor, Ledger, LedgerError, LogView, StoredEntry};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

pub use crate::grants::GrantEntryError;
use crate::grants::{
    GrantEntry, append_grant, check_length, find_own, grant_draft, id_and_secret, id_of_request, list_grants,
    once,
};

pub use recognised::RecognisedKeys;
pub use sessions::{
    CreatedLink, LinkRequest, OpenedSession, PersonSession, SESSION_HOURS, SessionReport, SignInError,
    create_link, end_session, list_sessions, open_for_person, sign_in, token_role,
};

/// What every token begins with, so that scanners for leaked secrets know it.
const TOKEN_PREFIX: &str = "crealeph_";
/// The longest token: a tenant of 256 bytes in base64url, an id, a secret.
const MAX_TOKEN_BYTES: usize = 512;

/// Why a key was not granted, listed or revoked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// There is no such key.
    #[error("tenant `{tenant}` has no key `{id}`")]
    NoKey {
        /// The key.
        id: KeyId,
        /// The tenant.
        tenant: TenantId,
    },
    /// There is no such session.
    #[error("tenant `{tenant}` has no session `{id}`")]
    NoSession {
        /// The session.
        id: KeyId,
        /// The tenant.
        tenant: TenantId,
    },
    /// The client has named another request so.
    #[error("the client key `{0}` was used for another request")]
    OtherRequest(ClientKey),
    /// A key that would never count.
    #[error("the key would expire at {0}, which is in the past")]
    Past(String),
    /// Its entry was not appended or read.
    #[error(transparent)]
    Entry(GrantEntryError),
}

impl AccessError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            AccessError::NoKey { .. } => "unknown_api_key",
            AccessError::NoSession { .. } => "unknown_session",
            AccessError::OtherRequest(_) => "IDEMPOTENCY_CONFLICT",
            AccessError::Past(_) => "bad_expiry",
            AccessError::Entry(error) => error.code(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            AccessError::NoKey { .. } => {
                Some("list the keys with `crealeph key list`, and check --tenant".into())
            }
            AccessError::NoSession { .. } => {
                Some("list the sessions with `crealeph key sessions`, and check --tenant".into())
            }
            AccessError::Past(_) => Some("give a time in the future".into()),
            AccessError::Entry(error) => error.hint(),
            AccessError::OtherRequest(_) => None,
        }
    }

    /// Whether the request is at fault, not the ledger or the machine.
    pub fn is_refusal(&self) -> bool {
        match self {
            AccessError::NoKey { .. }
            | AccessError::NoSession { .. }
            | AccessError::Past(_)
            | AccessError::OtherRequest(_) => true,
            AccessError::Entry(error) => error.is_refusal(),
        }
    }
}

impl<E> From<E> for AccessError
where
    GrantEntryError: From<E>,
{
    fn from(error: E) -> Self {
        AccessError::Entry(error.into())
    }
}

impl GrantEntry for AccessEntry {
    fn read_payload(kind: &str, payload: &JsonObject) -> Option<Self> {
        AccessEntry::read(kind, payload).ok()
    }

    fn client_key(&self) -> String {
        self.client_key()
    }
}

/// A key as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReport {
    /// Its id.
    pub key_id: String,
    /// The tenant.
    pub tenant_id: String,
    /// What it allows.
    pub role: Cow<'static, str>,
    /// The robot that it is restricted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robot_id: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was granted.
    pub created_at: String,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// `active`, `expired` or `revoked`.
    pub state: Cow<'static, str>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Why it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The entry that grants it.
    pub entry: String,
}

/// A key that was granted, with its token if that was just now: the only time that it is there.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedKey {
    /// The token; absent if the same request had granted the key before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The key.
    #[serde(flatten)]
    pub report: KeyReport,
}

/// Who asks, as the token proved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyIdentity {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The key or session.
    pub key_id: KeyId,
    /// Its role.
    pub role: KeyRole,
    /// The robot that it is restricted to.
    pub robot_id: Option<RobotId>,
    /// With what it was opened, if it is a session of the console.
    pub session: Option<SessionOrigin>,
}

/// With what a session was opened: with neither, by a link from the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOrigin {
    /// The API key, with which it ends.
    pub key_id: Option<KeyId>,
    /// The person who signed in with a passkey.
    pub person: Option<Name>,
}

impl KeyIdentity {
    /// Whether its role permits something.
    pub fn may(&self, permission: Permission) -> bool {
        permits(self.role, permission)
    }

    /// Whether it may see an entry: of its robot, and about keys only if it may know who has them.
    pub fn sees(&self, entry: &StoredEntry) -> bool {
        let is_about_keys = entry.content.module.as_str() == ACCESS.as_str();
        self.covers(&entry.content.robot_id) && (!is_about_keys || self.may(Permission::SeeGrants))
    }

    /// Whether an entry revokes it, or the key that it was opened with.
    pub fn is_revoked_by(&self, entry: &StoredEntry) -> bool {
        let ends = match &self.session {
            None => [Some(revocation_key(&self.key_id)), None],
            Some(origin) => [Some(session_end_key(&self.key_id)), origin.key_id.as_ref().map(revocation_key)],
        };
        let content = &entry.content;
        let key = content.key.as_ref().map(|key| key.as_str());
        content.module.as_str() == ACCESS.as_str() && ends.iter().flatten().any(|end| key == Some(end))
    }

    /// Whether an entry, whose payload need not be there, may end it: it revokes a key of some person, and a person opened the session.
    pub fn may_be_ended_by(&self, entry: &StoredEntry) -> bool {
        let (module, kind) = (entry.content.module.as_str(), entry.content.kind.as_str());
        self.session.as_ref().is_some_and(|session| session.person.is_some())
            && module == APPROVALS.as_str()
            && kind == SignedKind::Revocation.as_str()
    }

    /// Who acts: the key, or who opened the session. An entry that it appends has this as its name, unless that is too long for one.
    pub fn actor(&self) -> Actor {
        match &self.session {
            Some(SessionOrigin { person: Some(person), .. }) => Actor::Person(person.clone()),
            Some(SessionOrigin { key_id: Some(key_id), .. }) => Actor::Key(key_id.clone()),
            Some(_) => Actor::Link(self.key_id.clone()),
            None => Actor::Key(self.key_id.clone()),
        }
    }

    /// Whether it may see and write what is of this robot.
    pub fn covers(&self, robot: &RobotId) -> bool {
        self.robot_id.as_ref().is_none_or(|own| own == robot)
    }
}

/// Grants a key, unless the same request of the same client key has granted it before.
///
/// # Errors
/// When the client key was used for another request, or the ledger cannot be written.
pub fn create_key(
    ledger: &Ledger,
    tenant: &TenantId,
    request: KeyRequest,
) -> Result<CreatedKey, AccessError> {
    check_length("the label", request.label.as_ref())?;
    if let Some(granted) = granted_before(ledger, tenant, &request)? {
        return Ok(granted);
    }
    if let Some(expires) = &request.expires
        && expires.instant() <= ledger.now().instant()
    {
        return Err(AccessError::Past(expires.as_str().to_owned()));
    }
    let (id, secret) = id_and_secret()?;
    let key_id = KeyId::parse(&request.client_key.as_ref().map_or(id, |key| id_of_request(KEY_GRANT, key)))?;
    let token = token_of(tenant, &key_id, &secret);
    let KeyRequest { role, robot_id, label, expires, .. } = request.clone();
    let token_digest = Blake3::of(token.as_bytes());
    let grant = KeyGrant { key_id, role, robot_id, label, expires, token_digest };
    let entry = AccessEntry::Grant(grant.clone());
    match append(ledger, tenant, KEY_GRANT, Literal::new("granted"), entry) {
        Ok(AppendedEntry { id, created_at, .. }) => {
            let report = report(tenant, &grant, &id, created_at.to_string(), KeyStanding::Active);
            Ok(CreatedKey { token: Some(token), report })
        }
        // The same request, sent at the same time, was first.
        Err(error) if error.is_overtaken() => granted_before(ledger, tenant, &request)?.ok_or(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// What this request has granted before, without the token.
fn granted_before(
    ledger: &Ledger,
    tenant: &TenantId,
    request: &KeyRequest,
) -> Result<Option<CreatedKey>, AccessError> {
    let Some(client_key) = &request.client_key else { return Ok(None) };
    let id = KeyId::parse(&id_of_request(KEY_GRANT, client_key))?;
    let Some(found) = ledger.view(tenant, |view| find_key(view, &id))?.flatten() else { return Ok(None) };
    let KeyGrant { role, robot_id, label, expires, .. } = &found.grant;
    let is_same = (role, robot_id, label, expires)
        == (&request.role, &request.robot_id, &request.label, &request.expires);
    match is_same {
        true => Ok(Some(CreatedKey { token: None, report: found.report(tenant) })),
        false => Err(AccessError::OtherRequest(client_key.clone())),
    }
}

/// Revokes a key, from now on in every process. A key that is revoked already stays as it is.
///
/// # Errors
/// When there is no such key, or the ledger cannot be written.
pub fn revoke_key(
    ledger: &Ledger,
    tenant: &TenantId,
    id: &KeyId,
    reason: Option<Text>,
) -> Result<KeyReport, AccessError> {
    check_length("the reason", reason.as_ref())?;
    let find = || Ok::<_, AccessError>(ledger.view(tenant, |view| find_key(view, id))?.flatten());
    let no_key = || AccessError::NoKey { id: id.clone(), tenant: tenant.clone() };
    let found = find()?.ok_or_else(no_key)?;
    if found.revocation.is_none() {
        let revocation = AccessEntry::Revocation(KeyRevocation { key_id: id.clone(), reason });
        once(append(ledger, tenant, KEY_REVOCATION, Literal::new("revoked"), revocation))?;
    }
    Ok(find()?.ok_or_else(no_key)?.report(tenant))
}

/// A page of a tenant's keys in the order in which they were granted, and where the list continues.
///
/// # Errors
/// When the ledger cannot be read.
pub fn list_keys(
    ledger: &Ledger,
    tenant: &TenantId,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<KeyReport>, Option<Cursor>), AccessError> {
    let find = |view: &mut LogView<'_>, entry: AccessEntry| find_key(view, entry.key_id());
    let (keys, next) = list_grants(ledger, tenant, KEY_GRANT, (cursor, limit), find)?;
    Ok((keys.into_iter().map(|key| key.report(tenant)).collect(), next))
}

/// Who holds a token, and when that ends; `None` if no one does, or its key no longer counts.
fn active_key(ledger: &Ledger, token: &str) -> Result<Option<(KeyIdentity, Option<Instant>)>, LedgerError> {
    let Some((tenant_id, key_id)) = named_in(token) else { return Ok(None) };
    let found = ledger.view(&tenant_id, |view| find_key(view, &key_id))?.flatten();
    let Some(FoundKey { grant, standing, .. }) = found else { return Ok(None) };
    if !is_digest_of(&grant.token_digest, token) || standing != KeyStanding::Active {
        return Ok(None);
    }
    let (role, robot_id) = (grant.role, grant.robot_id.clone());
    let expires = grant.expires.as_ref().map(Timestamp::instant);
    Ok(Some((KeyIdentity { tenant_id, key_id, role, robot_id, session: None }, expires)))
}

/// Whether a key or session that was recognised before still counts.
///
/// # Errors
/// When the ledger cannot be read.
pub fn is_active(ledger: &Ledger, identity: &KeyIdentity) -> Result<bool, LedgerError> {
    if identity.session.is_some() {
        let session = ledger.view(&identity.tenant_id, |view| sessions::find(view, &identity.key_id))?;
        return Ok(session.flatten().is_some());
    }
    let found = ledger.view(&identity.tenant_id, |view| find_key(view, &identity.key_id))?.flatten();
    Ok(found.is_some_and(|key| key.standing == KeyStanding::Active))
}

/// The tenant that a token is for, if it has the form of one.
pub(crate) fn tenant_of_token(token: &str) -> Option<TenantId> {
    named_in(token).map(|(tenant, _)| tenant)
}

/// Whether a digest is a token's, compared in constant time.
fn is_digest_of(digest: &Blake3, token: &str) -> bool {
    bool::from(Blake3::of(token.as_bytes()).as_bytes().ct_eq(digest.as_bytes()))
}

/// A token of these parts.
fn token_of(tenant: &TenantId, id: &KeyId, secret: &[u8]) -> String {
    let tenant = URL_SAFE_NO_PAD.encode(tenant.as_str());
    format!("{TOKEN_PREFIX}{tenant}.{id}.{}", URL_SAFE_NO_PAD.encode(secret))
}

/// The tenant and key that a token names, if it has the form of one.
fn named_in(token: &str) -> Option<(TenantId, KeyId)> {
    let rest = token.strip_prefix(TOKEN_PREFIX).filter(|_| token.len() <= MAX_TOKEN_BYTES)?;
    let mut parts = rest.split('.');
    let (tenant, id, _secret) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let tenant = String::from_utf8(URL_SAFE_NO_PAD.decode(tenant).ok()?).ok()?;
    Some((TenantId::parse(&tenant).ok()?, KeyId::parse(id).ok()?))
}

/// A key with what the log says of it, at one place of the log.
struct FoundKey {
    grant: KeyGrant,
    entry: StoredEntry,
    revocation: Option<(KeyRevocation, StoredEntry)>,
    standing: KeyStanding,
}

impl FoundKey {
    fn report(self, tenant: &TenantId) -> KeyReport {
        let created_at = self.entry.created_at.to_string();
        let mut report = report(tenant, &self.grant, &self.entry.id, created_at, self.standing);
        if let Some((revocation, entry)) = self.revocation {
            report.revoked_at = Some(entry.created_at.to_string());
            report.reason = revocation.reason.map(|reason| reason.as_str().to_owned());
        }
        report
    }
}

/// Looks a key up by its id. An id that cannot be one is no one's.
fn find_key(view: &mut LogView<'_>, id: &KeyId) -> Result<Option<FoundKey>, LedgerError> {
    let Some((AccessEntry::Grant(grant), entry)) = find_own(view, &grant_key(id))? else { return Ok(None) };
    let revocation = match find_own(view, &revocation_key(id))? {
        Some((AccessEntry::Revocation(revocation), entry)) => Some((revocation, entry)),
        _ => None,
    };
    let standing = key_standing(&grant, revocation.is_some(), view.place().now.instant());
    Ok(Some(FoundKey { grant, entry, revocation, standing }))
}

fn report(
    tenant: &TenantId,
    grant: &KeyGrant,
    entry: &LedgerId,
    created_at: String,
    standing: KeyStanding,
) -> KeyReport {
    KeyReport {
        key_id: grant.key_id.as_str().to_owned(),
        tenant_id: tenant.as_str().to_owned(),
        role: grant.role.as_str().into(),
        robot_id: grant.robot_id.as_ref().map(|robot| robot.as_str().to_owned()),
        label: grant.label.as_ref().map(|label| label.as_str().to_owned()),
        created_at,
        expires: grant.expires.as_ref().map(|expires| expires.as_str().to_owned()),
        state: standing.as_str().into(),
        revoked_at: None,
        reason: None,
        entry: entry.as_str().to_owned(),
    }
}

/// Records what happened to a key, under the client key that exists once.
fn append(
    ledger: &Ledger,
    tenant: &TenantId,
    kind: Literal,
    state: Literal,
    entry: AccessEntry,
) -> Result<AppendedEntry, GrantEntryError> {
    let payload = match &entry {
        AccessEntry::Grant(grant) => JsonObject::of("the grant", grant)?,
        AccessEntry::Revocation(revocation) => JsonObject::of("the revocation", revocation)?,
    };
    append_grant(ledger, tenant, grant_draft(kind, state, payload, &entry.client_key())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use crealeph_ledger::{Clock, LedgerOptions, Location, Millis};

    use super::*;

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("ledger.db"));
        let ledger = Ledger::init(&location, LedgerOptions::default()).unwrap();
        (folder, ledger)
    }

    fn request(role: KeyRole) -> KeyRequest {
        KeyRequest { role, robot_id: None, label: None, expires: None, client_key: None }
    }

    #[test]
    fn a_key_opens_its_own_tenant_until_it_is_revoked() {
        let (_folder, ledger) = ledger();
        let (own, other) = (TenantId::parse("a b/ä").unwrap(), TenantId::parse("other").unwrap());
        let created = create_key(&ledger, &own, request(KeyRole::Writer)).unwrap();
        let token = created.token.clone().unwrap();
        let keys = RecognisedKeys::default();
        let identity = keys.authenticate(&ledger, &token).unwrap().unwrap();
        assert_eq!((identity.tenant_id.clone(), identity.role), (own.clone(), KeyRole::Writer));
        // The same key under another tenant's name, and every token that differs in one character, is no one's.
        create_key(&ledger, &other, request(KeyRole::Admin)).unwrap();
        let part = |tenant: &TenantId| URL_SAFE_NO_PAD.encode(tenant.as_str());
        let moved = token.replace(&part(&own), &part(&other));
        assert_eq!(keys.authenticate(&ledger, &moved), Ok(None));
        for (at, letter) in token.char_indices() {
            let mut changed = token.clone();
            changed.replace_range(at..=at, if letter == 'A' { "B" } else { "A" });
            assert_eq!(keys.authenticate(&ledger, &changed), Ok(None), "{changed}");
        }
        let revoked = revoke_key(&ledger, &own, &identity.key_id, Text::new("lost")).unwrap();
        assert_eq!((&*revoked.state, revoked.reason.as_deref()), ("revoked", Some("lost")));
        assert_eq!(keys.known(&ledger, &token), None);
        assert_eq!(keys.authenticate(&ledger, &token), Ok(None));
        let again = revoke_key(&ledger, &own, &identity.key_id, None).unwrap();
        assert_eq!(again, revoked);
        assert_eq!(
            revoke_key(&ledger, &other, &identity.key_id, None).unwrap_err().code(),
            "unknown_api_key"
        );
    }

    #[test]
    fn a_key_is_known_without_the_log_until_anything_is_written_or_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("ledger.db"));
        let now = Arc::new(AtomicI64::new(1_800_000_000_000));
        let told = Arc::clone(&now);
        let clock = Clock::from_fn(move || Millis::new(told.load(Ordering::SeqCst)));
        let ledger = Ledger::init(&location, LedgerOptions { clock, ..LedgerOptions::default() }).unwrap();
        let tenant = TenantId::parse("t").unwrap();
        let expires = Some(Timestamp::from(Millis::new(1_800_000_060_000).instant()));
        let created =
            create_key(&ledger, &tenant, KeyRequest { expires, ..request(KeyRole::Reader) }).unwrap();
        let token = created.token.clone().unwrap();
        let keys = RecognisedKeys::default();
        assert_eq!(keys.known(&ledger, &token), None, "it was never read");
        let identity = keys.authenticate(&ledger, &token).unwrap();
        assert_eq!(keys.known(&ledger, &token), identity);
        assert_eq!(keys.known(&ledger, &token.replace(".", "..")), None);
        // Another process writes.
        let other = Ledger::open(&location, LedgerOptions::default()).unwrap();
        create_key(&other, &TenantId::parse("u").unwrap(), request(KeyRole::Reader)).unwrap();
        assert_eq!(keys.known(&ledger, &token), None);
        assert_eq!(keys.authenticate(&ledger, &token).unwrap(), identity);
        assert_eq!(keys.known(&ledger, &token), identity);
        now.store(1_800_000_060_000, Ordering::SeqCst);
        assert_eq!(keys.known(&ledger, &token), None);
        assert_eq!(keys.authenticate(&ledger, &token), Ok(None));
    }

    #[test]
    fn neither_the_log_nor_the_list_has_the_token() {
        let (_folder, ledger) = ledger();
        let tenant = TenantId::parse("t").unwrap();
        let created = create_key(&ledger, &tenant, request(KeyRole::Reader)).unwrap();
        let token = created.token.clone().unwrap();
        let secret = token.rsplit('.').next().unwrap();
        let (keys, next) = list_keys(&ledger, &tenant, None, 10).unwrap();
        assert_eq!((keys.as_slice(), next), ([created.report.clone()].as_slice(), None));
        let mut exported = Vec::new();
        ledger.export(&tenant, &mut exported).unwrap();
        let exported = String::from_utf8(exported).unwrap();
        assert!(exported.contains(&created.report.key_id) && !exported.contains(secret));
    }

    #[test]
    fn a_key_that_would_already_be_expired_is_not_granted() {
        let (_folder, ledger) = ledger();
        let expires = Some(Timestamp::parse("2020-01-01T00:00:00Z").unwrap());
        let request = KeyRequest { expires, ..request(KeyRole::Reader) };
        let refused = create_key(&ledger, &TenantId::parse("t").unwrap(), request);
        assert_eq!(refused.err().unwrap().code(), "bad_expiry");
    }
}
