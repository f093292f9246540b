//! Passkeys of people: the invitation that an admin signs, the enrolment by the link, and what a page needs to ask a browser for a
//! passkey. No state is kept between a question and its answer, so any server can accept the answer: the challenge is the digest of
//! a statement that comes back with it, and the log has at most one enrolment for an invitation.
//!
//! A link ends in `#crealeph-invite_TENANT.NONCE.SECRET`. Browsers send what follows the `#` to no one, so no log of a server or proxy
//! has it; the page posts it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crealeph_contracts::api_key::KeyRole;
use crealeph_contracts::approval::{
    APPROVALS, ApprovalDocument as _, ApprovalEntry, SignedPayload, nonce_key,
};
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::{ComposeError, JsonObject, ObjectWriter};
use crealeph_contracts::passkey::{
    InvitationStatement, InvitationType, PASSKEY_ENROLMENT, PasskeyOrigin, PasskeyRecord, PasskeyRequest,
    PasskeyStatement, PasskeyStatementType, SignInStatement, SignInType, challenge, invitation_key,
    user_handle,
};
use crealeph_contracts::scalar::{ClientKey, Literal, Name, TenantId, Text};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::{AppendedEntry, Ledger, LedgerError, LogPlace, StoredEntry};
use crealeph_verify::{EnrolledPasskey, SignedInPerson, read_new_passkey};
use serde_json::{Value, json};

use super::error::ApprovalError;
use super::history::{ApprovalHistory, StatementSigner, append_at_end, approvals_draft, first};
use super::people::{StatementPlace, new_nonce};
use crate::grants::id_and_secret;

/// What a link has behind its `#` begins with, so that scanners for leaked secrets know it.
const TOKEN_PREFIX: &str = "crealeph-invite_";
/// The longest: a tenant of 256 bytes in base64url, a UUID, a secret.
const MAX_TOKEN_BYTES: usize = 512;
const NANOS_PER_HOUR: i128 = 3_600_000_000_000;
/// The algorithms that are taken, as COSE numbers them, the best first.
const ALGORITHMS: [i32; 3] = [-7, -8, -257];

/// An invitation that is to be signed, and the token of its link.
#[derive(Clone, Debug)]
pub struct NewInvitation {
    /// What the admin signs.
    pub statement: InvitationStatement,
    /// What the link has behind its `#`; no one keeps it.
    pub token: String,
}

impl NewInvitation {
    /// The link that is given to the person.
    pub fn link(&self) -> String {
        format!("{}/enrol#{}", self.statement.origin.as_str(), self.token)
    }
}

/// What an admin says about the person they invite.
#[derive(Clone, Debug)]
pub struct InvitationTerms {
    /// The person.
    pub person: Name,
    /// Their groups, from here on.
    pub groups: Set<Name>,
    /// What they may do in sessions.
    pub role: KeyRole,
    /// Where the passkey is used.
    pub origin: PasskeyOrigin,
    /// For how long the link can be used.
    pub hours: u32,
}

/// An invitation, which an admin signs.
///
/// # Errors
/// When it cannot be made.
pub fn invitation(
    place: StatementPlace,
    terms: InvitationTerms,
    signer: StatementSigner,
) -> Result<NewInvitation, ApprovalError> {
    let InvitationTerms { person, groups, role, origin, hours } = terms;
    let (_, secret) = id_and_secret().map_err(|error| ApprovalError::Random(error.to_string()))?;
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let now = place.time.instant();
    let expires = Instant::from_unix_nanos(now.unix_nanos() + i128::from(hours) * NANOS_PER_HOUR);
    let tenant = URL_SAFE_NO_PAD.encode(place.tenant_id.as_str());
    let statement = InvitationStatement {
        kind: InvitationType::Invitation,
        tenant_id: place.tenant_id,
        log_origin: place.log_origin,
        person,
        groups,
        role,
        origin,
        secret_digest: Sha256::of(secret.as_bytes()),
        expires: Timestamp::from(expires),
        signed_by: signer.person,
        signer_key_id: signer.key_id,
        nonce: new_nonce()?,
        time: place.time,
    };
    let token = format!("{TOKEN_PREFIX}{tenant}.{}.{secret}", statement.nonce);
    Ok(NewInvitation { statement, token })
}

/// Someone who has the link of an invitation.
#[derive(Clone, Debug)]
pub struct Invited {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Which invitation.
    pub nonce: Uuid,
    secret: Text,
}

impl Invited {
    /// Recognises the token of a link. One lookup, so that a guess costs little.
    ///
    /// # Errors
    /// When there is no such invitation, or the secret is another one.
    pub fn recognise(ledger: &Ledger, token: &str) -> Result<Self, ApprovalError> {
        let invited = Self::read(token).ok_or(ApprovalError::BadInvitation)?;
        let key = ClientKey::parse(&nonce_key(&invited.nonce))?;
        let entry = ledger.get_by_key(&invited.tenant_id, &key)?.map(|entry| entry.to_entry());
        let entry = entry.filter(|entry| {
            entry.module.as_ref().is_some_and(|module| module.as_str() == APPROVALS.as_str())
        });
        let read =
            entry.and_then(|entry| ApprovalEntry::read(entry.kind.as_str(), entry.payload.as_ref()?).ok());
        match read {
            Some((ApprovalEntry::Invitation(statement), _))
                if statement.secret_digest == Sha256::of(invited.secret.as_str().as_bytes()) =>
            {
                Ok(invited)
            }
            _ => Err(ApprovalError::BadInvitation),
        }
    }

    fn read(token: &str) -> Option<Self> {
        let parts = token.strip_prefix(TOKEN_PREFIX).filter(|_| token.len() <= MAX_TOKEN_BYTES)?;
        let (tenant, rest) = parts.split_once('.')?;
        let (nonce, secret) = rest.split_once('.')?;
        let tenant = String::from_utf8(URL_SAFE_NO_PAD.decode(tenant).ok()?).ok()?;
        let tenant_id = TenantId::parse(&tenant).ok()?;
        Some(Invited { tenant_id, nonce: Uuid::parse(nonce)?, secret: Text::new(secret)? })
    }

    /// The request for the browser, as JSON.
    ///
    /// # Errors
    /// When the invitation has ended, or the ledger cannot be read.
    pub fn question_json(&self, ledger: &Ledger) -> Result<String, ApprovalError> {
        let history = ApprovalHistory::load(ledger, &self.tenant_id)?.ok_or(ApprovalError::BadInvitation)?;
        let invitation = self.open(&history)?;
        let InvitationStatement { tenant_id, log_origin, person, origin, expires, .. } = invitation;
        let statement = PasskeyStatement {
            kind: PasskeyStatementType::Enrolment,
            tenant_id: tenant_id.clone(),
            log_origin: log_origin.clone(),
            invitation: self.nonce,
            person: person.clone(),
            origin: origin.clone(),
            time: history.place.now.timestamp(),
        };
        let text = statement.to_canonical()?;
        let known = history.judge.passkeys_of(person).into_iter();
        let known: Vec<String> = known.map(|own| own.passkey.credential_id.to_string()).collect();
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object.raw("statement", &text).text("challenge", &challenge(&text));
        object.text("relyingParty", origin.relying_party()).text("person", person.as_str());
        object.text("userHandle", &user_handle(tenant_id, person).to_string());
        object.raw("algorithms", &json!(ALGORITHMS).to_string()).texts("known", known);
        object.text("expires", expires.as_str());
        object.end();
        Ok(out)
    }

    /// The invitation, if it can still be used.
    fn open<'h>(&self, history: &'h ApprovalHistory) -> Result<&'h InvitationStatement, ApprovalError> {
        let open = history.judge.open_invitation(&self.nonce);
        let open = open.ok_or(ApprovalError::InvitationOver("was used, or its person was revoked"))?;
        match history.place.now.instant() < open.expires.instant() {
            true => Ok(open),
            false => Err(ApprovalError::InvitationOver("has expired")),
        }
    }

    /// Enrols the passkey that the browser made. Safe to repeat: what is recorded exactly so is not refused.
    ///
    /// # Errors
    /// When the invitation has ended, an outsider would refuse the passkey, or the ledger cannot be written.
    pub fn enrol(&self, ledger: &Ledger, request: PasskeyRequest) -> Result<EnrolledByLink, ApprovalError> {
        let record = self.record(request)?;
        let payload = JsonObject::of("the enrolment of a passkey", &record)?;
        let key = invitation_key(&self.nonce);
        let (person, key_id) = (record.statement.person.clone(), record.key_id.clone());
        let entry = ApprovalEntry::Passkey(Box::new(record));
        let mut repeated = None;
        let written = append_at_end(ledger, &self.tenant_id, || {
            if let Some(stored) = ledger.get_by_key(&self.tenant_id, &ClientKey::parse(&key)?)? {
                let is_it =
                    stored.to_entry().payload.is_some_and(|stored| stored.canonical() == payload.canonical());
                if is_it {
                    let StoredEntry { id, seq, created_at, .. } = stored;
                    repeated = Some(AppendedEntry { id, seq, created_at, is_repeat: true });
                    return Ok(None);
                }
            }
            let history = ApprovalHistory::load(ledger, &self.tenant_id)?.ok_or(LedgerError::Closed)?;
            self.open(&history)?;
            history.check(&entry, None, &key)?;
            let draft =
                approvals_draft(PASSKEY_ENROLMENT, Literal::new("enrolled"), payload.clone(), None, &key)?;
            Ok(Some((history.place, vec![(None, draft)])))
        })?;
        let entry = match repeated {
            Some(entry) => entry,
            None => first(written)?,
        };
        Ok(EnrolledByLink { entry, person, key_id })
    }

    fn record(&self, request: PasskeyRequest) -> Result<PasskeyRecord, ApprovalError> {
        let PasskeyRequest { token: _, statement, attestation_object, client_data_json } = request;
        let new = read_new_passkey(attestation_object.as_slice());
        let passkey = new.map_err(|error| ApprovalError::BadPasskey(error.to_string()))?.passkey;
        Ok(PasskeyRecord {
            statement,
            secret: self.secret.clone(),
            key_id: Name::parse(&passkey.key_id)?,
            credential_id: passkey.credential_id,
            public_key: passkey.public_key,
            attestation_object,
            client_data_json,
        })
    }
}

/// A passkey that was enrolled.
#[derive(Clone, Debug)]
pub struct EnrolledByLink {
    /// The entry.
    pub entry: AppendedEntry,
    /// Whose it is.
    pub person: Name,
    /// What it is known by.
    pub key_id: Name,
}

impl EnrolledByLink {
    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "person": self.person.as_str(), "keyId": self.key_id.as_str(), "entry": self.entry.id.as_str(),
            "repeat": self.entry.is_repeat,
        })
    }
}

/// The request for a browser so that a passkey proves a statement, as JSON.
pub(super) fn assertion_question(passkey: &EnrolledPasskey, text: &str) -> Value {
    json!({
        "challenge": challenge(text), "relyingParty": passkey.origin.relying_party(),
        "origin": passkey.origin.as_str(), "credentialId": passkey.passkey.credential_id.to_string(),
    })
}

/// What someone proves who signs in at an origin, and what their browser is to be asked, as JSON. It can be answered for two
/// minutes.
///
/// # Errors
/// When it cannot be made.
pub fn sign_in_question(
    ledger: &Ledger,
    tenant: &TenantId,
    origin: PasskeyOrigin,
) -> Result<String, ApprovalError> {
    let place = ledger.view(tenant, |view| Ok(view.place()))?;
    let decoy = ledger.decoy_origin(tenant);
    let (log_origin, now) = match place {
        Some(LogPlace { origin, now, .. }) => (origin, now),
        None => (decoy?, ledger.now()),
    };
    let relying_party = origin.relying_party().to_owned();
    let statement = SignInStatement {
        kind: SignInType::SignIn,
        tenant_id: tenant.clone(),
        log_origin: Name::parse(&log_origin)?,
        origin,
        nonce: new_nonce()?,
        time: now.timestamp(),
    };
    let text = statement.to_canonical()?;
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.raw("statement", &text).text("challenge", &challenge(&text));
    object.text("relyingParty", &relying_party);
    object.end();
    Ok(out)
}

/// Who signs in, by the answer to [`sign_in_question`], and the nonce, which the caller lets count once; no one if the passkey is not
/// enrolled, or the tenant has no log.
///
/// # Errors
/// When the passkey does not prove it, was revoked, or the question is too old.
pub fn signed_in(
    history: Option<&ApprovalHistory>,
    signed: &SignedPayload,
) -> Result<Option<(SignedInPerson, Uuid)>, ApprovalError> {
    let read = SignInStatement::parse(signed.statement.as_str().as_bytes());
    let statement = read.map_err(|violations| {
        let reason = violations.first().map_or_else(String::new, ToString::to_string);
        ComposeError { what: "the statement of a sign-in", reason }
    })?;
    let Some(history) = history else { return Ok(None) };
    let person = history.judge.sign_in(&statement, signed, history.place.now.instant());
    Ok(person.map_err(ApprovalError::Refused)?.map(|person| (person, statement.nonce)))
}
