//! Sessions of the console: opened with a link from the terminal, an API key or a passkey, and ended by their time, by signing out,
//! or with the key. A session is an entry of its tenant's log like an API key, so every server knows it and its end at once; its
//! client key exists once, so a link opens one session, wherever and however often it is used.

use crealeph_contracts::approval::{APPROVALS, ApprovalEntry, SignedKind, TENANT_ROBOT};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::session::{
    SESSION_GRANT, SessionEnd, SessionEntry, SessionGrant, SignInLink, link_key, session_end_key, session_key,
};
use crealeph_decision::access::{KeyStanding, SessionHistory, session_counts};
use crealeph_ledger::{Filter, Order, Seq};

use super::{
    AccessError, Cow, Cursor, Deserialize, KeyId, KeyIdentity, KeyRole, Ledger, LedgerError, Literal,
    LogView, Name, RobotId, Serialize, SessionOrigin, StoredEntry, TenantId, find_key, is_digest_of,
    named_in, token_of,
};
use crate::grants::{
    GrantEntry, GrantEntryError, append_grant, entries_of, find_grant, find_own, grant_draft, id_and_secret,
    once, own_entry,
};

/// How long a session lasts.
pub const SESSION_HOURS: i128 = 8;
/// How long a link can be used.
const LINK_MINUTES: i128 = 10;
/// How many revocations are read at a time.
const REVOCATIONS_READ: usize = 50;
const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// Why no one was signed in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SignInError {
    /// It is of no link, key or passkey that counts; which tenants exist is not revealed.
    #[error("this link, key or passkey cannot sign in here: it is unknown, has expired or was revoked")]
    Unknown,
    /// The link, or what a person signed, has opened a session already.
    #[error("this link was already used; each link signs in once")]
    Used,
    /// The session could not be recorded.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// What a link is for.
#[derive(Clone, Debug)]
pub struct LinkRequest {
    /// What the session allows.
    pub role: KeyRole,
    /// The robot that the session is restricted to.
    pub robot_id: Option<RobotId>,
}

/// A link that was just made, with its token: the only time that it is there.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedLink {
    /// The token.
    pub token: String,
    /// The id of the link, and of the session that it opens.
    pub link_id: String,
    /// The tenant.
    pub tenant_id: String,
    /// What the session allows.
    pub role: &'static str,
    /// Until when it can be used.
    pub expires: String,
}

/// A session that was just opened.
#[derive(Clone)]
pub struct OpenedSession {
    /// The token, for the browser's cookie.
    pub token: String,
    /// How long it lasts, in seconds.
    pub seconds: u64,
    /// Whose it is.
    pub identity: KeyIdentity,
}

/// A session as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionReport {
    /// Its id.
    pub session_id: String,
    /// The tenant.
    pub tenant_id: String,
    /// What it allows.
    pub role: Cow<'static, str>,
    /// The robot that it is restricted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robot_id: Option<String>,
    /// The person, key or link that opened it, as the entries that it appends name them.
    pub opened_by: String,
    /// When it was opened.
    pub created_at: String,
    /// When it ends by itself.
    pub expires: String,
    /// `active` or `ended`.
    pub state: Cow<'static, str>,
    /// The entry that opened it.
    pub entry: String,
}

impl GrantEntry for SessionEntry {
    fn read_payload(kind: &str, payload: &JsonObject) -> Option<Self> {
        SessionEntry::read(kind, payload).ok()
    }

    fn client_key(&self) -> String {
        self.client_key()
    }
}

impl SessionReport {
    /// Of the entry that opened it; `None` if that is of something else.
    fn of(entry: &StoredEntry) -> Option<Self> {
        let SessionEntry::Grant(grant) = own_entry(entry)? else { return None };
        let expires = grant.expires.as_str().to_owned();
        let identity = identity_of(entry.tenant_id.clone(), grant);
        Some(SessionReport {
            session_id: identity.key_id.as_str().to_owned(),
            tenant_id: identity.tenant_id.as_str().to_owned(),
            role: identity.role.as_str().into(),
            robot_id: identity.robot_id.as_ref().map(|robot| robot.as_str().to_owned()),
            // A person's name may be so long that no entry can name them.
            opened_by: identity.actor().to_string(),
            created_at: entry.created_at.to_string(),
            expires,
            state: "active".into(),
            entry: entry.id.as_str().to_owned(),
        })
    }
}

/// Who a session is.
fn identity_of(tenant_id: TenantId, grant: SessionGrant) -> KeyIdentity {
    let SessionGrant { session_id, key_id, person, role, robot_id, .. } = grant;
    KeyIdentity {
        tenant_id,
        key_id: session_id,
        role,
        robot_id,
        session: Some(SessionOrigin { key_id, person }),
    }
}

/// A person who has proved to be there, and what opened their session: an id that nothing else will ever have.
#[derive(Clone, Debug)]
pub struct PersonSession {
    /// The person.
    pub person: Name,
    /// What they may do in the console.
    pub role: KeyRole,
    /// The id of what they signed.
    pub nonce: KeyId,
}

/// Makes a link that signs in once, within ten minutes.
///
/// # Errors
/// When the ledger cannot be written.
pub fn create_link(
    ledger: &Ledger,
    tenant: &TenantId,
    request: LinkRequest,
) -> Result<CreatedLink, AccessError> {
    let (id, token) = new_token(tenant, None)?;
    let expires = later(ledger, LINK_MINUTES);
    let link = SignInLink {
        link_id: id.clone(),
        role: request.role,
        robot_id: request.robot_id,
        expires: expires.clone(),
        token_digest: Blake3::of(token.as_bytes()),
    };
    append(ledger, tenant, &SessionEntry::Link(link))?;
    Ok(CreatedLink {
        token,
        link_id: id.as_str().to_owned(),
        tenant_id: tenant.as_str().to_owned(),
        role: request.role.as_str(),
        expires: expires.as_str().to_owned(),
    })
}

/// The tenant and role that a link or key would sign in for; `None` if it would not.
///
/// # Errors
/// When the ledger cannot be read.
pub fn token_role(ledger: &Ledger, token: &str) -> Result<Option<(TenantId, KeyRole)>, LedgerError> {
    Ok(bearer(ledger, token)?.map(|(tenant, bearer)| (tenant, bearer.role)))
}

/// Opens a session for the holder of a link or of an API key.
///
/// # Errors
/// When the token is no one's or the link was used, or the ledger cannot be used.
pub fn sign_in(ledger: &Ledger, token: &str) -> Result<OpenedSession, SignInError> {
    let (tenant, bearer) = bearer(ledger, token).map_err(AccessError::from)?.ok_or(SignInError::Unknown)?;
    open(ledger, &tenant, bearer)
}

/// Opens a session for a person.
///
/// # Errors
/// When what they signed was used before, or the ledger cannot be used.
pub fn open_for_person(
    ledger: &Ledger,
    tenant: &TenantId,
    person: PersonSession,
) -> Result<OpenedSession, SignInError> {
    let PersonSession { person, role, nonce } = person;
    let origin = SessionOrigin { key_id: None, person: Some(person) };
    open(ledger, tenant, SessionBearer { id: Some(nonce), origin, role, robot_id: None, ends: None })
}

/// Ends a session, from now on on every server. One that has ended already stays as it is.
///
/// # Errors
/// When there is no such session, or the ledger cannot be written.
pub fn end_session(ledger: &Ledger, tenant: &TenantId, id: &KeyId) -> Result<SessionReport, AccessError> {
    let found = ledger.view(tenant, |view| {
        let Some(entry) = find_grant(view, &session_key(id))? else { return Ok(None) };
        Ok(Some((entry, find(view, id)?.is_some())))
    })?;
    let no_session = || AccessError::NoSession { id: id.clone(), tenant: tenant.clone() };
    let (entry, is_active) = found.flatten().ok_or_else(no_session)?;
    let mut report = SessionReport::of(&entry).ok_or_else(no_session)?;
    if is_active {
        once(append(ledger, tenant, &SessionEntry::End(SessionEnd { session_id: id.clone() })))?;
    }
    report.state = "ended".into();
    Ok(report)
}

/// A page of a tenant's sessions that count, the newest first, and where the list continues. A page may have fewer than there are.
///
/// # Errors
/// When the ledger cannot be read.
pub fn list_sessions(
    ledger: &Ledger,
    tenant: &TenantId,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<SessionReport>, Option<Cursor>), AccessError> {
    let read = ledger.view(tenant, |view| {
        let page = view.list(&entries_of(SESSION_GRANT), Order::NewestFirst, cursor, limit)?;
        let now = view.place().now.instant();
        let is_over = |entry: &StoredEntry| {
            now.nanos_since(entry.created_at.instant()) >= SESSION_HOURS * 60 * NANOS_PER_MINUTE
        };
        // Those before it have ended too.
        let next = page.next.filter(|_| !page.entries.last().is_some_and(is_over));
        let mut counting = Vec::new();
        for entry in page.entries {
            if let Some(session) = own_entry::<SessionEntry>(&entry)
                && find(view, session.id())?.is_some()
            {
                counting.extend(SessionReport::of(&entry));
            }
        }
        Ok((counting, next))
    })?;
    Ok(read.unwrap_or_default())
}

/// The session of a token, and when it ends.
pub(super) fn active_session(
    ledger: &Ledger,
    token: &str,
) -> Result<Option<(KeyIdentity, Option<Instant>)>, LedgerError> {
    let Some((tenant_id, key_id)) = named_in(token) else { return Ok(None) };
    let Some(grant) = ledger.view(&tenant_id, |view| find(view, &key_id))?.flatten() else {
        return Ok(None);
    };
    if !is_digest_of(&grant.token_digest, token) {
        return Ok(None);
    }
    let expires = grant.expires.instant();
    Ok(Some((identity_of(tenant_id, grant), Some(expires))))
}

/// Looks up a session that counts: opened, not over, and neither the key nor the person that opened it revoked since.
pub(super) fn find(view: &mut LogView<'_>, id: &KeyId) -> Result<Option<SessionGrant>, LedgerError> {
    let Some((SessionEntry::Grant(grant), entry)) = find_own(view, &session_key(id))? else {
        return Ok(None);
    };
    let is_key_revoked = match &grant.key_id {
        Some(key) => find_key(view, key)?.is_none_or(|key| key.standing == KeyStanding::Revoked),
        None => false,
    };
    let is_person_revoked = match &grant.person {
        Some(person) => is_revoked_since(view, person, entry.seq)?,
        None => false,
    };
    let is_ended = find_grant(view, &session_end_key(id))?.is_some();
    let history = SessionHistory { is_ended, is_key_revoked, is_person_revoked };
    Ok(session_counts(&grant, history, view.place().now.instant()).then_some(grant))
}

/// Whether a key of a person was revoked after a place of the log.
fn is_revoked_since(view: &mut LogView<'_>, person: &Name, since: Seq) -> Result<bool, LedgerError> {
    let revocations = Filter {
        robot_id: Some(RobotId::from(TENANT_ROBOT)),
        kind: Some(Name::from(Literal::new(SignedKind::Revocation.as_str()))),
        module: Some(Name::from(APPROVALS)),
        ..Filter::default()
    };
    let mut cursor = None;
    loop {
        let page = view.list(&revocations, Order::NewestFirst, cursor, REVOCATIONS_READ)?;
        for entry in &page.entries {
            if entry.seq < since {
                return Ok(false);
            }
            let content = &entry.content;
            let read = JsonObject::parse_own(&content.payload)
                .map(|payload| ApprovalEntry::read(content.kind.as_str(), &payload));
            if let Some(Ok((ApprovalEntry::Revocation(statement), _))) = read
                && statement.person == *person
            {
                return Ok(true);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

/// For whom a session is opened.
struct SessionBearer {
    /// The session's id, if what opens it may be used once.
    id: Option<KeyId>,
    origin: SessionOrigin,
    role: KeyRole,
    robot_id: Option<RobotId>,
    /// When what opens it ends, if that ends the session.
    ends: Option<Instant>,
}

/// Who holds a link or an API key.
fn bearer(ledger: &Ledger, token: &str) -> Result<Option<(TenantId, SessionBearer)>, LedgerError> {
    let Some((tenant, id)) = named_in(token) else { return Ok(None) };
    let found = ledger.view(&tenant, |view| {
        if let Some((SessionEntry::Link(link), _)) = find_own(view, &link_key(&id))? {
            let counts = is_digest_of(&link.token_digest, token)
                && view.place().now.instant() < link.expires.instant();
            let origin = SessionOrigin { key_id: None, person: None };
            let (role, robot_id) = (link.role, link.robot_id);
            return Ok(counts.then_some(SessionBearer {
                id: Some(id.clone()),
                origin,
                role,
                robot_id,
                ends: None,
            }));
        }
        let Some(key) = find_key(view, &id)? else { return Ok(None) };
        let counts = is_digest_of(&key.grant.token_digest, token) && key.standing == KeyStanding::Active;
        let origin = SessionOrigin { key_id: Some(id.clone()), person: None };
        let ends = key.grant.expires.as_ref().map(Timestamp::instant);
        let (role, robot_id) = (key.grant.role, key.grant.robot_id);
        Ok(counts.then_some(SessionBearer { id: None, origin, role, robot_id, ends }))
    })?;
    Ok(found.flatten().map(|bearer| (tenant, bearer)))
}

fn open(ledger: &Ledger, tenant: &TenantId, bearer: SessionBearer) -> Result<OpenedSession, SignInError> {
    let SessionBearer { id, origin, role, robot_id, ends } = bearer;
    let (id, token) = new_token(tenant, id)?;
    let usual = later(ledger, SESSION_HOURS * 60).instant();
    let expires = ends.map_or(usual, |ends| ends.min(usual));
    let left = expires.nanos_since(ledger.now().instant()).max(0) / 1_000_000_000;
    let grant = SessionGrant {
        session_id: id.clone(),
        key_id: origin.key_id.clone(),
        person: origin.person.clone(),
        role,
        robot_id: robot_id.clone(),
        expires: Timestamp::from(expires),
        token_digest: Blake3::of(token.as_bytes()),
    };
    match append(ledger, tenant, &SessionEntry::Grant(grant)) {
        Err(error) if error.is_overtaken() => return Err(SignInError::Used),
        written => written.map_err(AccessError::from)?,
    }
    let tenant_id = tenant.clone();
    let identity = KeyIdentity { tenant_id, key_id: id, role, robot_id, session: Some(origin) };
    Ok(OpenedSession { token, seconds: u64::try_from(left).unwrap_or(0), identity })
}

/// A new token, of this id or of a new one.
fn new_token(tenant: &TenantId, id: Option<KeyId>) -> Result<(KeyId, String), AccessError> {
    let (new, secret) = id_and_secret()?;
    let id = match id {
        Some(id) => id,
        None => KeyId::parse(&new)?,
    };
    let token = token_of(tenant, &id, &secret);
    Ok((id, token))
}

fn later(ledger: &Ledger, minutes: i128) -> Timestamp {
    let now = ledger.now().instant().unix_nanos();
    Timestamp::from(Instant::from_unix_nanos(now + minutes * NANOS_PER_MINUTE))
}

fn append(ledger: &Ledger, tenant: &TenantId, entry: &SessionEntry) -> Result<(), GrantEntryError> {
    let (payload, state) = match entry {
        SessionEntry::Link(link) => (JsonObject::of("the link", link)?, Literal::new("granted")),
        SessionEntry::Grant(grant) => (JsonObject::of("the session", grant)?, Literal::new("granted")),
        SessionEntry::End(end) => (JsonObject::of("the end of a session", end)?, Literal::new("revoked")),
    };
    let draft = grant_draft(entry.kind(), state, payload, &entry.client_key())?;
    append_grant(ledger, tenant, draft).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use crealeph_contracts::api_key::KeyRequest;
    use crealeph_ledger::{Clock, LedgerOptions, Location, Millis};

    use super::super::{RecognisedKeys, create_key, is_active, revoke_key};
    use super::*;

    struct Scene {
        _folder: tempfile::TempDir,
        ledger: Ledger,
        now: Arc<AtomicI64>,
        tenant: TenantId,
        keys: RecognisedKeys,
        sessions: RecognisedKeys,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let location = Location::File(folder.path().join("ledger.db"));
            let now = Arc::new(AtomicI64::new(1_800_000_000_000));
            let read = Arc::clone(&now);
            let clock = Clock::from_fn(move || Millis::new(read.load(Ordering::SeqCst)));
            let ledger =
                Ledger::init(&location, LedgerOptions { clock, ..LedgerOptions::default() }).unwrap();
            let (keys, sessions) = (RecognisedKeys::default(), RecognisedKeys::of_sessions());
            Scene { _folder: folder, ledger, now, tenant: TenantId::parse("t").unwrap(), keys, sessions }
        }

        fn link(&self) -> String {
            let request = LinkRequest { role: KeyRole::Operator, robot_id: None };
            create_link(&self.ledger, &self.tenant, request).unwrap().token
        }

        fn key(&self) -> (KeyId, String) {
            let request = KeyRequest {
                role: KeyRole::Reader,
                robot_id: None,
                label: None,
                expires: None,
                client_key: None,
            };
            let created = create_key(&self.ledger, &self.tenant, request).unwrap();
            (KeyId::parse(&created.report.key_id).unwrap(), created.token.unwrap())
        }

        /// The entry of a revocation, as the ledger has it once its signature was checked.
        fn revoke(&self, person: &str) {
            let statement = format!(
                r#"{{"type":"person_revocation","tenantId":"t","logOrigin":"l","person":"{person}","keyId":"k","signedBy":"root","signerKeyId":"SHA256:x","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z"}}"#
            );
            let payload = format!(r#"{{"statement":{statement},"proof":"ssh","signature":"x"}}"#);
            let mut draft = grant_draft(
                Literal::new("person_revocation"),
                Literal::new("revoked"),
                JsonObject::parse(&payload).unwrap(),
                &format!("crealeph:test:{person}"),
            )
            .unwrap();
            draft.module = Name::from(APPROVALS);
            self.ledger.append_as(&self.tenant, vec![(None, draft)]).unwrap();
        }

        fn passes(&self, minutes: i64) {
            self.now.fetch_add(minutes * 60_000, Ordering::SeqCst);
        }

        fn session(&self, token: &str) -> Option<KeyIdentity> {
            self.sessions.authenticate(&self.ledger, token).unwrap()
        }
    }

    #[test]
    fn a_link_opens_one_session_within_its_time() {
        let scene = Scene::new();
        let link = scene.link();
        assert_eq!(scene.keys.authenticate(&scene.ledger, &link), Ok(None), "a link is no API key");
        assert_eq!(scene.session(&link), None);
        let session = sign_in(&scene.ledger, &link).unwrap();
        assert_eq!(sign_in(&scene.ledger, &link).err(), Some(SignInError::Used));
        let identity = scene.session(&session.token).unwrap();
        assert_eq!(
            (identity.role, identity.actor().to_string()),
            (KeyRole::Operator, format!("link:{}", identity.key_id))
        );
        assert_eq!(
            scene.keys.authenticate(&scene.ledger, &session.token),
            Ok(None),
            "a session is no API key"
        );
        let late = scene.link();
        scene.passes(10);
        assert_eq!(sign_in(&scene.ledger, &late).err(), Some(SignInError::Unknown));
        assert_eq!(sign_in(&scene.ledger, "crealeph_x").err(), Some(SignInError::Unknown));
        // A session ends by its time, cached or not.
        assert!(scene.session(&session.token).is_some());
        assert!(scene.sessions.known(&scene.ledger, &session.token).is_some());
        scene.passes(8 * 60);
        assert_eq!(scene.sessions.known(&scene.ledger, &session.token), None);
        assert_eq!(scene.session(&session.token), None);
        assert_eq!(is_active(&scene.ledger, &identity), Ok(false));
    }

    #[test]
    fn a_session_ends_with_its_key_and_by_signing_out() {
        let scene = Scene::new();
        let (key_id, token) = scene.key();
        let [first, second] = [(); 2].map(|()| sign_in(&scene.ledger, &token).unwrap());
        let identity = scene.session(&first.token).unwrap();
        assert_eq!(identity.actor().to_string(), format!("key:{key_id}"));
        let end = |tenant: &TenantId| end_session(&scene.ledger, tenant, &identity.key_id);
        let ended = end(&scene.tenant).unwrap();
        assert_eq!((&*ended.state, ended.opened_by), ("ended", format!("key:{key_id}")));
        assert_eq!(end(&scene.tenant).unwrap().state, "ended", "once more");
        assert_eq!(end(&TenantId::parse("u").unwrap()).unwrap_err().code(), "unknown_session");
        assert_eq!(scene.session(&first.token), None);
        let identity = scene.session(&second.token).unwrap();
        revoke_key(&scene.ledger, &scene.tenant, &key_id, None).unwrap();
        assert_eq!(scene.session(&second.token), None);
        assert_eq!(is_active(&scene.ledger, &identity), Ok(false));
        assert_eq!(sign_in(&scene.ledger, &token).err(), Some(SignInError::Unknown));
    }

    #[test]
    fn what_a_person_signed_opens_one_session() {
        let scene = Scene::new();
        let person = PersonSession {
            person: Name::parse("ana").unwrap(),
            role: KeyRole::Reader,
            nonce: KeyId::parse("0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f").unwrap(),
        };
        let session = open_for_person(&scene.ledger, &scene.tenant, person.clone()).unwrap();
        assert_eq!(scene.session(&session.token).unwrap().actor().to_string(), "person:ana");
        assert_eq!(
            open_for_person(&scene.ledger, &scene.tenant, person.clone()).err(),
            Some(SignInError::Used)
        );
        // Someone else's revocation ends nothing; one of a key of theirs ends it, and not the sessions after it.
        scene.revoke("ben");
        assert!(scene.session(&session.token).is_some());
        scene.revoke("ana");
        assert_eq!(scene.session(&session.token), None);
        let nonce = KeyId::parse("0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e90").unwrap();
        let later = open_for_person(&scene.ledger, &scene.tenant, PersonSession { nonce, ..person }).unwrap();
        assert!(scene.session(&later.token).is_some());
    }

    #[test]
    fn a_session_of_a_person_with_the_longest_name_is_listed_and_ended() {
        let scene = Scene::new();
        let person = PersonSession {
            person: Name::parse(&"n".repeat(256)).unwrap(),
            role: KeyRole::Reader,
            nonce: KeyId::parse("0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f").unwrap(),
        };
        let other = sign_in(&scene.ledger, &scene.link()).unwrap().identity.key_id;
        let long = open_for_person(&scene.ledger, &scene.tenant, person).unwrap().identity.key_id;
        let (listed, _) = list_sessions(&scene.ledger, &scene.tenant, None, 10).unwrap();
        let ids: Vec<&str> = listed.iter().map(|session| session.session_id.as_str()).collect();
        assert_eq!(ids, [long.as_str(), other.as_str()]);
        let ended = end_session(&scene.ledger, &scene.tenant, &long).unwrap();
        assert_eq!(ended.opened_by, format!("person:{}", "n".repeat(256)));
    }

    #[test]
    fn the_sessions_that_count_are_listed_from_the_newest_on() {
        let scene = Scene::new();
        let (_, token) = scene.key();
        let open = || sign_in(&scene.ledger, &token).unwrap().identity.key_id;
        let list = |cursor, limit| {
            let (page, next) = list_sessions(&scene.ledger, &scene.tenant, cursor, limit).unwrap();
            (page.into_iter().map(|session| session.session_id).collect::<Vec<_>>(), next)
        };
        let ids = |sessions: &[&KeyId]| sessions.iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
        let [early, ended] = [(); 2].map(|()| open());
        scene.passes(60);
        let late = sign_in(&scene.ledger, &scene.link()).unwrap().identity.key_id;
        end_session(&scene.ledger, &scene.tenant, &ended).unwrap();
        assert_eq!(list(None, 10), (ids(&[&late, &early]), None));
        let (first, next) = list(None, 1);
        assert_eq!((first, next.is_some()), (ids(&[&late]), true));
        let (second, next) = list(next, 1);
        assert_eq!((second, next.is_some()), (Vec::new(), true), "the one that was ended");
        assert_eq!(list(next, 1).0, ids(&[&early]));
        scene.passes(7 * 60);
        assert_eq!(list(None, 10), (ids(&[&late]), None));
        // Nothing before one that has lasted its time is read.
        assert_eq!(list(None, 2), (ids(&[&late]), None));
    }
}
