//! The keys of workspaces elsewhere whose receipts a tenant accepts: enrolled, listed, revoked, each an entry of the log.

use std::borrow::Cow;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::reported::{
    SIGNER_ENROLMENT, SIGNER_REVOCATION, SignerEnrolment, SignerRequest, SignerRevocation,
    revoked_signer_key, signer_key,
};
use crealeph_contracts::scalar::{Literal, Name, TenantId, Text};
use crealeph_ledger::{Cursor, Filter, Ledger, LedgerError, LogView, Order, Seq, StoredEntry};
use crealeph_verify::{SignerLog, VerifierKey, VerifierKeyError};
use serde::{Deserialize, Serialize};

use crate::grants::{
    GrantEntry, GrantEntryError, append_grant, check_length, entries_of, find_grant, find_own, grant_draft,
    list_grants, once,
};
use crate::work::receipt::NAME_PREFIX;

/// How many signers a tenant can have enrolled, revoked ones too: a report is checked with all that count.
const MAX_SIGNERS: usize = 10_000;
/// How many entries are read at a time.
const PAGE_ENTRIES: usize = 100;

/// Why a signer was not enrolled, listed or revoked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerEnrolmentError {
    /// There is no such signer.
    #[error("tenant `{tenant}` has no signer `{id}`")]
    NoSigner {
        /// The signer.
        id: Blake3,
        /// The tenant.
        tenant: TenantId,
    },
    /// Not a key.
    #[error("this is not the public key of a workspace: {0}")]
    Key(VerifierKeyError),
    /// A key that signs something else.
    #[error("the key signs as `{0}`, and receipts are signed as `{NAME_PREFIX}…`")]
    OtherName(String),
    /// It was revoked.
    #[error("signer `{0}` was revoked, and a revoked key cannot be enrolled again")]
    Revoked(Blake3),
    /// Too many.
    #[error("the tenant has enrolled {MAX_SIGNERS} signers, which is the limit")]
    TooMany,
    /// Its entry was not appended or read.
    #[error(transparent)]
    Entry(GrantEntryError),
}

impl SignerEnrolmentError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            SignerEnrolmentError::NoSigner { .. } => "unknown_signer",
            SignerEnrolmentError::Key(_) | SignerEnrolmentError::OtherName(_) => "bad_key",
            SignerEnrolmentError::Revoked(_) => "signer_revoked",
            SignerEnrolmentError::TooMany => "too_large",
            SignerEnrolmentError::Entry(error) => error.code(),
        }
    }

    /// Whether the request was judged and refused, as opposed to one that could not be executed.
    pub fn is_refusal(&self) -> bool {
        use SignerEnrolmentError::{Entry, Key, NoSigner, OtherName, Revoked, TooMany};
        match self {
            NoSigner { .. } | Key(_) | OtherName(_) | Revoked(_) | TooMany => true,
            Entry(error) => error.is_refusal(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            SignerEnrolmentError::NoSigner { .. } => {
                "list the signers with `crealeph signer list`, and check --tenant"
            }
            SignerEnrolmentError::Key(_) | SignerEnrolmentError::OtherName(_) => {
                "print it with `crealeph work key` in the workspace that makes the receipts"
            }
            SignerEnrolmentError::Revoked(_) => {
                "add another key with `crealeph work key --rotate` there, and enrol that"
            }
            SignerEnrolmentError::Entry(error) => return error.hint(),
            SignerEnrolmentError::TooMany => return None,
        }))
    }
}

impl<E> From<E> for SignerEnrolmentError
where
    GrantEntryError: From<E>,
{
    fn from(error: E) -> Self {
        SignerEnrolmentError::Entry(error.into())
    }
}

impl GrantEntry for SignerEnrolment {
    fn read_payload(_: &str, payload: &JsonObject) -> Option<Self> {
        SignerEnrolment::of_payload(payload)
    }

    fn client_key(&self) -> String {
        self.client_key()
    }
}

/// A signer as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignerReport {
    /// Its id.
    pub signer_id: String,
    /// The workspace, by the name that its key signs under.
    pub workspace: String,
    /// The public key.
    pub key: String,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was enrolled.
    pub created_at: String,
    /// `active` or `revoked`.
    pub state: Cow<'static, str>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Why it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The entry that enrols it.
    pub entry: String,
}

/// Enrols a signer's key. One that is enrolled already stays as it is.
///
/// # Errors
/// When it is not a workspace's key, or was revoked, or the ledger cannot be written.
pub fn add_signer(
    ledger: &Ledger,
    tenant: &TenantId,
    request: SignerRequest,
) -> Result<SignerReport, SignerEnrolmentError> {
    check_length("the label", request.label.as_ref())?;
    let key = VerifierKey::parse(request.key.as_str()).map_err(SignerEnrolmentError::Key)?;
    if !key.name().starts_with(NAME_PREFIX) {
        return Err(SignerEnrolmentError::OtherName(key.name().to_owned()));
    }
    let text = request.key.as_str().trim_end();
    let signer_id = Blake3::of(text.as_bytes());
    let find =
        || Ok::<_, SignerEnrolmentError>(ledger.view(tenant, |view| find(view, &signer_id))?.flatten());
    if find()?.is_none() {
        let state = Literal::new("enrolled");
        let enrolled = Filter { state: Some(Name::from(state)), ..entries_of(SIGNER_ENROLMENT) };
        if ledger.count(tenant, &enrolled, Seq::ZERO)? >= MAX_SIGNERS as u64 {
            return Err(SignerEnrolmentError::TooMany);
        }
        let key = Text::new(text).ok_or(SignerEnrolmentError::Key(VerifierKeyError::Form))?;
        let enrolment = SignerEnrolment { signer_id, key, label: request.label };
        let payload = JsonObject::of("the enrolment", &enrolment)?;
        let key = enrolment.client_key();
        once(append_grant(ledger, tenant, grant_draft(SIGNER_ENROLMENT, state, payload, &key)?))?;
    }
    match find()? {
        Some(report) if report.revoked_at.is_some() => Err(SignerEnrolmentError::Revoked(signer_id)),
        Some(report) => Ok(report),
        None => Err(LedgerError::Closed.into()),
    }
}

/// Revokes a signer: its receipts are no longer taken. One that is revoked already stays as it is.
///
/// # Errors
/// When there is no such signer, or the ledger cannot be written.
pub fn revoke_signer(
    ledger: &Ledger,
    tenant: &TenantId,
    id: &Blake3,
    reason: Option<Text>,
) -> Result<SignerReport, SignerEnrolmentError> {
    check_length("the reason", reason.as_ref())?;
    let find = || Ok::<_, SignerEnrolmentError>(ledger.view(tenant, |view| find(view, id))?.flatten());
    let missing = || SignerEnrolmentError::NoSigner { id: *id, tenant: tenant.clone() };
    let found = find()?.ok_or_else(missing)?;
    if found.revoked_at.is_none() {
        let revocation = SignerRevocation { signer_id: *id, reason };
        let payload = JsonObject::of("the revocation", &revocation)?;
        let (state, key) = (Literal::new("revoked"), revocation.client_key());
        once(append_grant(ledger, tenant, grant_draft(SIGNER_REVOCATION, state, payload, &key)?))?;
    }
    find()?.ok_or_else(missing)
}

/// A page of a tenant's signers in the order in which they were enrolled, and where the list continues.
///
/// # Errors
/// When the ledger cannot be read.
pub fn list_signers(
    ledger: &Ledger,
    tenant: &TenantId,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<SignerReport>, Option<Cursor>), SignerEnrolmentError> {
    let find = |view: &mut LogView<'_>, enrolment: SignerEnrolment| find(view, &enrolment.signer_id);
    Ok(list_grants(ledger, tenant, SIGNER_ENROLMENT, (cursor, limit), find)?)
}

/// The keys that a ledger knows itself: of the signers that are enrolled and not revoked, and of the tenant's log.
///
/// # Errors
/// When the ledger cannot be read.
pub fn known_keys(ledger: &Ledger, tenant: &TenantId) -> Result<Vec<VerifierKey>, LedgerError> {
    let mut keys: Vec<VerifierKey> = signer_log(ledger, tenant)?.0.keys().cloned().collect();
    let own = ledger.verifier_keys(tenant)?;
    keys.extend(own.iter().filter_map(|key| VerifierKey::parse(key).ok()));
    Ok(keys)
}

/// Everything that a log says of signers, judged in its order, and how far it was read.
pub(super) fn signer_log(ledger: &Ledger, tenant: &TenantId) -> Result<(SignerLog, Seq), LedgerError> {
    let read = ledger.view(tenant, |view| {
        let mut entries: Vec<Entry> = Vec::new();
        for kind in [SIGNER_ENROLMENT, SIGNER_REVOCATION] {
            let (filter, mut cursor) = (entries_of(kind), None);
            loop {
                let page = view.list(&filter, Order::OldestFirst, cursor, PAGE_ENTRIES)?;
                entries.extend(page.entries.iter().map(StoredEntry::to_entry));
                cursor = page.next;
                // To the end: without its revocation, a revoked key would count.
                if cursor.is_none() {
                    break;
                }
            }
        }
        entries.sort_by_key(|entry| entry.seq);
        let mut log = SignerLog::default();
        // What an outsider would refuse enrols no one.
        entries.iter().for_each(|entry| drop(log.add(entry)));
        Ok((log, view.place().seq))
    })?;
    Ok(read.unwrap_or((SignerLog::default(), Seq::ZERO)))
}

/// Looks a signer up by its id.
fn find(view: &mut LogView<'_>, id: &Blake3) -> Result<Option<SignerReport>, LedgerError> {
    let Some((enrolment, entry)) = find_own::<SignerEnrolment>(view, &signer_key(id))? else {
        return Ok(None);
    };
    let revocation = find_grant(view, &revoked_signer_key(id))?;
    let Ok(key) = VerifierKey::parse(enrolment.key.as_str()) else { return Ok(None) };
    let reason = revocation.as_ref().and_then(|entry| {
        SignerRevocation::of_payload(&JsonObject::parse_own(&entry.content.payload)?)?.reason
    });
    Ok(Some(SignerReport {
        signer_id: id.to_string(),
        workspace: key.name().to_owned(),
        key: enrolment.key.as_str().to_owned(),
        label: enrolment.label.map(|label| label.as_str().to_owned()),
        created_at: entry.created_at.to_string(),
        state: if revocation.is_some() { "revoked" } else { "active" }.into(),
        revoked_at: revocation.map(|entry| entry.created_at.to_string()),
        reason: reason.map(|reason| reason.as_str().to_owned()),
        entry: entry.id.as_str().to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crealeph_ledger::{LedgerOptions, Location};

    use super::*;
    use crate::work::receipt::Signer;

    /// Whoever may write to the ledger file cannot hide a revocation behind entries that enrol and revoke no one.
    #[test]
    fn a_revocation_counts_however_many_entries_are_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let ledger =
            Ledger::init(&Location::File(folder.path().join("ledger.db")), LedgerOptions::default()).unwrap();
        let tenant = TenantId::parse("t").unwrap();
        let fill = |kind: Literal, state: Literal, count: usize| {
            let draft = |number: usize| {
                let key = format!("{}/none-{}-{number}", kind.as_str(), state.as_str());
                (None, grant_draft(kind, state, JsonObject::empty(), &key).unwrap())
            };
            for start in (0..count).step_by(500) {
                let batch = (start..count.min(start + 500)).map(draft).collect();
                ledger.append_as(&tenant, batch).unwrap();
            }
        };
        fill(SIGNER_ENROLMENT, Literal::new("enrolled"), MAX_SIGNERS - 1);
        let control = folder.path().join(".crealeph");
        std::fs::create_dir(&control).unwrap();
        let signer = Signer::open(&control, &folder.path().join("keys")).unwrap();
        let key = Text::new(signer.verifier_keys().first().unwrap()).unwrap();
        let added = add_signer(&ledger, &tenant, SignerRequest { key, label: None }).unwrap();
        let is_known = || signer_log(&ledger, &tenant).unwrap().0.keys().count() == 1;
        assert!(is_known());
        fill(SIGNER_ENROLMENT, Literal::new("again"), MAX_SIGNERS + 1);
        fill(SIGNER_REVOCATION, Literal::new("revoked"), 2 * PAGE_ENTRIES);
        revoke_signer(&ledger, &tenant, &Blake3::parse(&added.signer_id).unwrap(), None).unwrap();
        assert!(!is_known(), "a revoked key counts");
    }
}
