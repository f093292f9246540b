//! What keys, sessions, signers and webhooks have in common: each is granted by an entry of the tenant, of no robot, under a client key that
//! exists once, and revoked by another.

use std::borrow::Cow;

use crealeph_contracts::api_key::ACCESS;
use crealeph_contracts::approval::TENANT_ROBOT;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{ComposeError, JsonObject};
use crealeph_contracts::scalar::{ClientKey, IdentifierError, Literal, Name, RobotId, TenantId, Text};
use crealeph_ledger::{
    AppendError, AppendedEntry, Cursor, EntryRefusal, Filter, Ledger, LedgerError, LogView, Order,
    StoredEntry,
};

/// The longest label or reason, in bytes.
const MAX_TEXT_BYTES: usize = 1_024;

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// Why an entry that grants or revokes was not appended or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantEntryError {
    /// A label or reason is too long.
    #[error("{what} is {found} bytes and the limit is {MAX_TEXT_BYTES}; shorten it")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it is.
        found: usize,
    },
    /// It cannot be appended to the ledger.
    #[error("cannot append to the ledger; nothing was written: {0}")]
    Unwritten(AppendError),
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A document cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// There is no random number.
    #[error("the system provides no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// A name is not valid.
    #[error("internal error: an invalid name: {0}; please report it")]
    Name(#[from] IdentifierError),
}

impl GrantEntryError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            GrantEntryError::TooLong { .. } | GrantEntryError::Compose(_) => "too_large",
            GrantEntryError::Unwritten(error) => error.code(),
            GrantEntryError::Ledger(error) => error.code(),
            GrantEntryError::Random(_) => "random",
            GrantEntryError::Name(_) => "bad_name",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            GrantEntryError::Ledger(error) => error.hint(),
            _ => None,
        }
    }

    /// Whether the request is at fault, not the ledger or the machine.
    pub fn is_refusal(&self) -> bool {
        matches!(self, GrantEntryError::TooLong { .. })
    }

    /// Whether another process was first, with another label or reason.
    pub(crate) fn is_overtaken(&self) -> bool {
        let GrantEntryError::Unwritten(AppendError::Refused { refusal, .. }) = self else { return false };
        matches!(refusal, EntryRefusal::Conflict { .. })
    }
}

impl From<AppendError> for GrantEntryError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Ledger(error) => GrantEntryError::Ledger(error),
            refused => GrantEntryError::Unwritten(refused),
        }
    }
}

/// What an entry says that grants or revokes. The entry is found by its client key, which only one entry has.
pub(crate) trait GrantEntry: Sized {
    /// Reads a payload of this type; `None` if it is of something else.
    fn read_payload(kind: &str, payload: &JsonObject) -> Option<Self>;

    /// The client key of its entry.
    fn client_key(&self) -> String;
}

/// Refuses a label or reason that is too long.
pub(crate) fn check_length(what: &'static str, text: Option<&Text>) -> Result<(), GrantEntryError> {
    match text.map(|text| text.as_str().len()) {
        Some(found) if found > MAX_TEXT_BYTES => Err(GrantEntryError::TooLong { what, found }),
        _ => Ok(()),
    }
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
pub(crate) fn entries_of(kind: Literal) -> Filter {
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

/// Appends what grants or revokes.
pub(crate) fn append_grant(
    ledger: &Ledger,
    tenant: &TenantId,
    draft: Draft,
) -> Result<AppendedEntry, GrantEntryError> {
    let written = ledger.append_as(tenant, vec![(None, draft)])?;
    Ok(written.into_iter().next().ok_or(LedgerError::Closed)?)
}

/// The result of an append under a client key that exists once: good, too, if another process was first, with another label or reason.
pub(crate) fn once<T, E>(written: Result<T, E>) -> Result<(), GrantEntryError>
where
    GrantEntryError: From<E>,
{
    match written.map_err(GrantEntryError::from) {
        Err(error) if !error.is_overtaken() => Err(error),
        _ => Ok(()),
    }
}

/// The entry under a client key, if it is one of these. A text that cannot be a key is no one's.
pub(crate) fn find_grant(view: &mut LogView<'_>, key: &str) -> Result<Option<StoredEntry>, LedgerError> {
    let Ok(key) = ClientKey::parse(key) else { return Ok(None) };
    let entry = view.get_by_key(&key)?;
    Ok(entry.filter(|entry| entry.content.module.as_str() == ACCESS.as_str()))
}

/// What an entry says, if it is one of these and stored under its own client key.
pub(crate) fn own_entry<G: GrantEntry>(entry: &StoredEntry) -> Option<G> {
    let content = &entry.content;
    if content.module.as_str() != ACCESS.as_str() {
        return None;
    }
    let read = G::read_payload(content.kind.as_str(), &JsonObject::parse_own(&content.payload)?)?;
    let is_its_own = content.key.as_ref().is_some_and(|key| key.as_str() == read.client_key());
    is_its_own.then_some(read)
}

/// The entry under a client key and what it says, if it is its own.
pub(crate) fn find_own<G: GrantEntry>(
    view: &mut LogView<'_>,
    key: &str,
) -> Result<Option<(G, StoredEntry)>, LedgerError> {
    Ok(find_grant(view, key)?.and_then(|entry| Some((own_entry(&entry)?, entry))))
}

/// A page of what the entries of one type grant, in the order in which they were appended, and where the list continues.
pub(crate) fn list_grants<G: GrantEntry, T>(
    ledger: &Ledger,
    tenant: &TenantId,
    kind: Literal,
    (cursor, limit): (Option<Cursor>, usize),
    find: impl Fn(&mut LogView<'_>, G) -> Result<Option<T>, LedgerError>,
) -> Result<(Vec<T>, Option<Cursor>), LedgerError> {
    let read = ledger.view(tenant, |view| {
        let page = view.list(&entries_of(kind), Order::OldestFirst, cursor, limit)?;
        let mut found = Vec::with_capacity(page.entries.len());
        for granted in page.entries.iter().filter_map(own_entry) {
            found.extend(find(view, granted)?);
        }
        Ok((found, page.next))
    })?;
    Ok(read.unwrap_or_default())
}
