//! Passkeys in the log (R33): an admin invites, anyone who has the secret enrols one passkey, and with it a person signs in. An invitation
//! counts for its tenant and log, for one person and one origin, once, until it expires or the person is revoked.

use crealeph_contracts::api_key::KeyRole;
use crealeph_contracts::approval::{ApprovalDocument as _, ProofKind, SignedKind, SignedPayload};
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::passkey::{
    AuthenticatorFacts, InvitationStatement, MAX_INVITATION_DAYS, PasskeyOrigin, PasskeyRecord,
    SIGN_IN_SECONDS, SignInStatement, invitation_key,
};
use crealeph_contracts::scalar::Name;
use crealeph_contracts::uuid::Uuid;

use crate::approvals::{ApprovalLog, EnrolledKey, Judged, KeyMaterial, invalid};
use crate::finding::{Finding, FindingKind};
use crate::passkey::{Asked, Passkey, PasskeyError, check_assertion, read_new_passkey};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;
/// An enrolment is accepted before its invitation expires, and may be written a little after that.
const WRITING_NANOS: i128 = 600 * NANOS_PER_SECOND;

/// An invitation of the log.
#[derive(Clone, Debug)]
pub(crate) struct Invitation {
    statement: InvitationStatement,
    /// A passkey was enrolled by it.
    is_used: bool,
    /// The person was revoked since.
    pub(crate) is_void: bool,
}

impl Invitation {
    pub(crate) fn person(&self) -> &Name {
        &self.statement.person
    }
}

/// A passkey of a person.
#[derive(Clone, Debug)]
pub struct EnrolledPasskey {
    /// The key.
    pub passkey: Passkey,
    /// Where it is used.
    pub origin: PasskeyOrigin,
    /// What the person may do in sessions that they sign in to with it.
    pub role: KeyRole,
}

/// A person who proved their identity with a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedInPerson {
    /// The person.
    pub person: Name,
    /// The key.
    pub key_id: Name,
    /// What they may do in the session.
    pub role: KeyRole,
}

fn forged(error: &PasskeyError) -> Finding {
    Finding::new(FindingKind::Forged, format!("is not proved: {error}"))
}

impl ApprovalLog {
    /// An invitation that was not used and whose person was not revoked since. It may have expired.
    pub fn open_invitation(&self, nonce: &Uuid) -> Option<&InvitationStatement> {
        let invitation = self.invitations.get(nonce).filter(|one| !one.is_used && !one.is_void)?;
        Some(&invitation.statement)
    }

    /// A passkey that may be used.
    pub fn passkey(&self, key_id: &str) -> Option<&EnrolledPasskey> {
        match self.keys.get(key_id).filter(|key| !key.is_revoked)?.material {
            KeyMaterial::Passkey(ref passkey) => Some(passkey),
            KeyMaterial::Ssh { .. } => None,
        }
    }

    /// The passkeys that a person may use.
    pub fn passkeys_of(&self, person: &Name) -> Vec<&EnrolledPasskey> {
        let own = self.keys.values().filter(|key| key.person == *person && !key.is_revoked);
        own.filter_map(|key| match &key.material {
            KeyMaterial::Passkey(own) => Some(own.as_ref()),
            KeyMaterial::Ssh { .. } => None,
        })
        .collect()
    }

    pub(crate) fn invite(
        &mut self,
        statement: &InvitationStatement,
        signed: &SignedPayload,
        key: Option<&str>,
    ) -> Judged<()> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        self.check_nonce(&statement.nonce, key)?;
        self.check_admin(&statement.signed_by, &statement.signer_key_id)?;
        let nanos = statement.expires.instant().nanos_since(statement.time.instant());
        if nanos <= 0 || nanos > i128::from(MAX_INVITATION_DAYS) * NANOS_PER_DAY {
            return Err(invalid(format!(
                "is an invitation for no time, or for over {MAX_INVITATION_DAYS} days"
            )));
        }
        self.check_signature(SignedKind::Invitation, &statement.signer_key_id, signed)?;
        self.nonces.insert(statement.nonce);
        self.groups.insert(statement.person.clone(), statement.groups.clone());
        let invitation = Invitation { statement: statement.clone(), is_used: false, is_void: false };
        self.invitations.insert(statement.nonce, invitation);
        Ok(())
    }

    /// A passkey that a person enrolled by an invitation.
    pub(crate) fn enrol_passkey(
        &mut self,
        record: &PasskeyRecord,
        key: Option<&str>,
        at: Instant,
    ) -> Judged<()> {
        let PasskeyRecord { statement, secret, .. } = record;
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        let nonce = statement.invitation;
        let invitation = self.invitations.get(&nonce);
        let invitation = invitation.ok_or_else(|| invalid("enrols a passkey without an invitation"))?;
        let wanted = &invitation.statement;
        let problem = match () {
            () if key != Some(invitation_key(&nonce).as_str()) => "does not have the key of its invitation",
            () if invitation.is_used => "uses an invitation again",
            () if invitation.is_void => "uses an invitation of a person who was revoked since",
            () if at.nanos_since(wanted.expires.instant()) > WRITING_NANOS => {
                "uses an invitation that has expired"
            }
            () if statement.person != wanted.person => "enrols another person than was invited",
            () if statement.origin != wanted.origin => {
                "enrols a passkey for another origin than the invitation's"
            }
            () if Sha256::of(secret.as_str().as_bytes()) != wanted.secret_digest => {
                "does not have the secret of its invitation"
            }
            () => "",
        };
        if !problem.is_empty() {
            return Err(invalid(problem));
        }
        let role = wanted.role;
        let new = read_new_passkey(record.attestation_object.as_slice()).map_err(|error| forged(&error))?;
        let text = statement.to_canonical().map_err(|error| invalid(error.to_string()))?;
        let asked = Asked { statement: &text, origin: &statement.origin };
        new.check(asked, record.client_data_json.as_slice()).map_err(|error| forged(&error))?;
        let passkey = new.passkey;
        let is_it = passkey.key_id == record.key_id.as_str()
            && passkey.credential_id == record.credential_id
            && passkey.public_key == record.public_key;
        if !is_it {
            return Err(invalid("names another passkey than the authenticator made"));
        }
        self.check_new(&passkey)?;
        if let Some(invitation) = self.invitations.get_mut(&nonce) {
            invitation.is_used = true;
        }
        let key_id = passkey.key_id.clone();
        let enrolled = EnrolledPasskey { passkey, origin: statement.origin.clone(), role };
        self.keys.insert(
            key_id,
            EnrolledKey {
                person: statement.person.clone(),
                material: KeyMaterial::Passkey(Box::new(enrolled)),
                is_revoked: false,
                counter: Some(new.counter),
            },
        );
        Ok(())
    }

    /// A passkey is enrolled once, and so is its credential id.
    fn check_new(&self, passkey: &Passkey) -> Judged<()> {
        let is_known = |key: &EnrolledKey| match &key.material {
            KeyMaterial::Passkey(known) => {
                known.passkey.key_id == passkey.key_id || known.passkey.credential_id == passkey.credential_id
            }
            KeyMaterial::Ssh { .. } => false,
        };
        match self.keys.values().any(is_known) {
            true => Err(invalid("enrols a passkey that was enrolled before")),
            false => Ok(()),
        }
    }

    /// The person who signs in, if a usable passkey has proved a statement that was written a moment ago; `None` if no passkey of the log
    /// is named, whatever else is wrong, so that a stranger learns nothing about the log. The caller ensures that the statement is used
    /// once: its nonce counts once.
    ///
    /// # Errors
    /// The first problem.
    pub fn sign_in(
        &self,
        statement: &SignInStatement,
        signed: &SignedPayload,
        now: Instant,
    ) -> Result<Option<SignedInPerson>, Finding> {
        let assertion = signed.passkey.as_ref().filter(|_| signed.proof == ProofKind::Passkey);
        let known = self.keys.values().find_map(|key| match &key.material {
            KeyMaterial::Passkey(known)
                if assertion.is_some_and(|it| it.credential_id == known.passkey.credential_id) =>
            {
                Some((key, known))
            }
            _ => None,
        });
        let Some((key, known)) = known else { return Ok(None) };
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        let age = now.nanos_since(statement.time.instant());
        if age < 0 || age > i128::from(SIGN_IN_SECONDS) * NANOS_PER_SECOND {
            return Err(invalid(format!(
                "is a sign-in that was not answered within {SIGN_IN_SECONDS} seconds"
            )));
        }
        if key.is_revoked {
            return Err(invalid("is by a passkey that was revoked"));
        }
        if statement.origin != known.origin {
            return Err(invalid(format!("is a sign-in at another origin than `{}`", known.origin.as_str())));
        }
        let facts = prove(known, signed)?;
        check_counter(key.counter, Some(facts.counter))?;
        let key_id = Name::parse(&known.passkey.key_id).map_err(|error| invalid(error.to_string()))?;
        Ok(Some(SignedInPerson { person: key.person.clone(), key_id, role: known.role }))
    }
}

/// Checks that a passkey has proved a statement.
pub(crate) fn prove(known: &EnrolledPasskey, signed: &SignedPayload) -> Judged<AuthenticatorFacts> {
    let assertion = signed.passkey.as_ref().ok_or_else(|| invalid("has no proof by its passkey"))?;
    let text = signed.statement.canonical();
    let asked = Asked { statement: &text, origin: &known.origin };
    let checked = check_assertion(&known.passkey, asked, assertion, signed.signature.as_str());
    checked.map_err(|error| forged(&error))
}

/// The count of an authenticator's signatures must rise, or always be 0.
pub(crate) fn check_counter(last: Option<u32>, counter: Option<u32>) -> Judged<()> {
    match (last, counter) {
        (Some(last), Some(counter)) if counter <= last && (last, counter) != (0, 0) => Err(invalid(format!(
            "has the signature count {counter} after {last}: the hardware key or passkey was copied"
        ))),
        _ => Ok(()),
    }
}
