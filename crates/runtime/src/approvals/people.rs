//! The statements that admins sign: built here with what they are bound to, signed elsewhere.

use crealeph_contracts::approval::{
    ADMINS, ApprovalRule, EnrolmentStatement, EnrolmentType, RevocationStatement, RevocationType,
    RuleStatement, RulesType,
};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::ComposeError;
use crealeph_contracts::scalar::{Name, TenantId, Text};
use crealeph_contracts::shape::{List, Set};
use crealeph_contracts::uuid::Uuid;
use crealeph_verify::PersonKey;

use super::error::ApprovalError;
use super::history::StatementSigner;

/// What a statement of an admin is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementPlace {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The name of its log.
    pub log_origin: Name,
    /// When it is made.
    pub time: Timestamp,
}

/// The first admin's enrolment, which their own key signs; `root` is the key of the first admin that the tenant has, if it has one.
///
/// # Errors
/// When the tenant has, or ever had, a person.
pub fn first_enrolment(
    place: StatementPlace,
    root: Option<&str>,
    person: Name,
    key: &PersonKey,
    groups: Vec<Name>,
) -> Result<EnrolmentStatement, ApprovalError> {
    if let Some(root) = root {
        return Err(ApprovalError::NotFirst(root.to_owned()));
    }
    let signer = StatementSigner { person: person.clone(), key_id: Name::parse(key.fingerprint())? };
    let groups = groups.into_iter().chain([Name::from(ADMINS)]).collect();
    enrolment(place, person, key, groups, signer)
}

/// A person and a key that is theirs, which an admin signs.
///
/// # Errors
/// When the statement cannot be made.
pub fn enrolment(
    place: StatementPlace,
    person: Name,
    key: &PersonKey,
    groups: Vec<Name>,
    signer: StatementSigner,
) -> Result<EnrolmentStatement, ApprovalError> {
    let line = key.line().ok().and_then(|line| Text::new(&line));
    let unwritable =
        || ComposeError { what: "the enrolment", reason: "its key cannot be written".to_owned() };
    Ok(EnrolmentStatement {
        kind: EnrolmentType::Enrolment,
        tenant_id: place.tenant_id,
        log_origin: place.log_origin,
        person,
        public_key: line.ok_or_else(unwritable)?,
        key_id: Name::parse(key.fingerprint())?,
        groups: Set::from_iter(groups),
        signed_by: signer.person,
        signer_key_id: signer.key_id,
        nonce: new_nonce()?,
        time: place.time,
    })
}

/// The revocation of one or all keys of a person; an admin signs it.
///
/// # Errors
/// When the statement cannot be made.
pub fn revocation(
    place: StatementPlace,
    person: Name,
    key_id: Option<Name>,
    reason: Option<Text>,
    signer: StatementSigner,
) -> Result<RevocationStatement, ApprovalError> {
    Ok(RevocationStatement {
        kind: RevocationType::Revocation,
        tenant_id: place.tenant_id,
        log_origin: place.log_origin,
        person,
        key_id,
        reason,
        signed_by: signer.person,
        signer_key_id: signer.key_id,
        nonce: new_nonce()?,
        time: place.time,
    })
}

/// Rules that replace those in force; an admin signs them.
///
/// # Errors
/// When the statement cannot be made.
pub fn rule_statement(
    place: StatementPlace,
    rules: Vec<ApprovalRule>,
    signer: StatementSigner,
) -> Result<RuleStatement, ApprovalError> {
    Ok(RuleStatement {
        kind: RulesType::Rules,
        tenant_id: place.tenant_id,
        log_origin: place.log_origin,
        rules: List::from_iter(rules),
        signed_by: signer.person,
        signer_key_id: signer.key_id,
        nonce: new_nonce()?,
        time: place.time,
    })
}

/// A random UUID (version 4).
pub(super) fn new_nonce() -> Result<Uuid, ApprovalError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ApprovalError::Random(error.to_string()))?;
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    Ok(Uuid::from_bytes(bytes))
}
