//! What keys, sessions, signers and webhooks have in common: each is granted by an entry of the tenant, of no robot, under a client key that
//! exists once, and revoked by another.

use crealeph_contracts::api_key::ACCESS;
use crealeph_contracts::approval::TENANT_ROBOT;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ClientKey, IdentifierError, Literal, Name, RobotId, Text};
use crealeph_ledger::{AppendError, EntryRefusal, Filter, LedgerError, LogView, StoredEntry};

/// The longest label or reason, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 1_024;

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// How long a label or reason is, if that is too long.
pub(crate) fn excess_length(text: Option<&Text>) -> Option<usize> {
    text.map(|text| text.as_str().len()).filter(|found| *found > MAX_TEXT_BYTES)
}

/// A new id in hexadecimal, and 256 random bits.
pub(crate) fn id_and_secret() -> Result<(String, [u8; SECRET_BYTES]), getrandom::Error> {
    let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
    getrandom::fill(&mut id)?;
    getrandom::fill(&mut secret)?;
    Ok((id.iter().map(|byte| format!("{byte:02x}")).collect(), secret))
}

/// The id of what is granted at a request that its client named: the same each time, so that the log takes one.
pub(crate) fn id_of_request(kind: Literal, key: &ClientKey) -> String {
    let digest = Blake3::of(format!("{}\n{key}", kind.as_str()).as_bytes());
    digest.as_bytes().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The entries of one type.
pub(crate) fn grants(kind: Literal) -> Filter {
    Filter {
        robot_id: Some(RobotId::from(TENANT_ROBOT)),
        kind: Some(Name::from(kind)),
        module: Some(Name::from(ACCESS)),
        ..Filter::default()
    }
}

/// What is appended.
pub(crate) fn grant_draft(
    kind: Literal,
    state: Literal,
    payload: JsonObject,
    key: &str,
) -> Result<Draft, IdentifierError> {
    Ok(Draft {
        robot_id: RobotId::from(TENANT_ROBOT),
        module: Name::from(ACCESS),
        source: Name::from(Literal::new("operator")),
        kind: Name::from(kind),
        state: Name::from(state),
        payload,
        lineage: None,
        observed_at: None,
        key: Some(ClientKey::parse(key)?),
    })
}

/// Whether another process was first, with another label or reason.
pub(crate) fn is_overtaken(error: &AppendError) -> bool {
    matches!(error, AppendError::Refused { refusal: EntryRefusal::Conflict { .. }, .. })
}

/// The entry under a client key, if it is one of these. A text that cannot be a key is no one's.
pub(crate) fn find_grant(view: &mut LogView<'_>, key: &str) -> Result<Option<StoredEntry>, LedgerError> {
    let Ok(key) = ClientKey::parse(key) else { return Ok(None) };
    let entry = view.get_by_key(&key)?;
    Ok(entry.filter(|entry| entry.content.module.as_str() == ACCESS.as_str()))
}
