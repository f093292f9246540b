//! The entries about approvals, read at one position of the log and judged in log order; and the only way to add to them.

use std::sync::Arc;

use crealeph_contracts::approval::{
    APPROVALS, ApprovalEntry, ApprovalRule, FIRST_ADMIN_KEY, LANDING, LANDING_OUTCOME, LoggedApproval,
    SignedKind, SignedPayload, TENANT_ROBOT, nonce_key,
};
use crealeph_contracts::entry::{Draft, Entry, Lineage};
use crealeph_contracts::json::{ComposeError, JsonObject};
use crealeph_contracts::passkey::PASSKEY_ENROLMENT;
use crealeph_contracts::scalar::{ClientKey, Count, LedgerId, Literal, Name, RobotId, TenantId};
use crealeph_contracts::shape::Set;
use crealeph_decision::approval::ApprovalEntries;
use crealeph_ledger::{
    AppendError, AppendedEntry, Cursor, EntryRefusal, Filter, Ledger, LedgerError, LogPlace, LogView, NewId,
    Order, Seq, StoredEntry,
};
use crealeph_verify::ApprovalLog;

use super::error::ApprovalError;
use super::kept_history::{DecidedDrafts, HistoryReader};
use super::people::StatementPlace;

/// How many entries are read at a time.
const PAGE_ENTRIES: usize = 100;
/// How often a log that grows is read again.
const MAX_READS: usize = 100;

/// What the log says of approvals, at one place of it.
#[derive(Clone, Debug)]
pub struct ApprovalHistory {
    /// The entries; what an outsider would refuse has a problem.
    pub entries: Arc<ApprovalEntries>,
    pub(super) decided_drafts: Arc<DecidedDrafts>,
    /// People, keys and rules, as an outsider knows them.
    pub judge: Arc<ApprovalLog>,
    /// The position of the log.
    pub place: LogPlace,
    /// The tenant.
    pub tenant_id: TenantId,
}

/// Who signs, and with which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementSigner {
    /// The person.
    pub person: Name,
    /// The key's fingerprint.
    pub key_id: Name,
}

impl ApprovalHistory {
    /// Reads the history of a tenant; `None` if it has no log.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn load(ledger: &Ledger, tenant: &TenantId) -> Result<Option<Self>, ApprovalError> {
        let reader = HistoryReader::new(ledger, tenant);
        Ok(ledger.view(tenant, |view| reader.read(view))?)
    }

    /// The same, of a tenant that gets a log if it has none.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub fn load_or_start(ledger: &Ledger, tenant: &TenantId) -> Result<Self, ApprovalError> {
        ledger.origin(tenant)?;
        Self::load(ledger, tenant)?.ok_or(ApprovalError::Ledger(LedgerError::Closed))
    }

    /// What a statement that is made now is bound to.
    ///
    /// # Errors
    /// When the log's name is none.
    pub fn statement_place(&self) -> Result<StatementPlace, ApprovalError> {
        Ok(StatementPlace {
            tenant_id: self.tenant_id.clone(),
            log_origin: Name::parse(&self.place.origin)?,
            time: self.place.now.timestamp(),
        })
    }

    /// The person whose key this is, if it may sign.
    ///
    /// # Errors
    /// When it is no one's, or revoked.
    pub fn signer(&self, fingerprint: &str) -> Result<StatementSigner, ApprovalError> {
        let person = self.judge.person_of(fingerprint);
        let person = person.ok_or_else(|| ApprovalError::UnknownKey(fingerprint.to_owned()))?;
        Ok(StatementSigner { person: person.clone(), key_id: Name::parse(fingerprint)? })
    }

    /// The same, of an admin.
    ///
    /// # Errors
    /// When it is no one's, or the person is not an admin.
    pub fn admin(&self, fingerprint: &str) -> Result<StatementSigner, ApprovalError> {
        let signer = self.signer(fingerprint)?;
        match self.judge.is_admin(&signer.person) {
            true => Ok(signer),
            false => Err(ApprovalError::NotAdmin(signer.person.as_str().to_owned())),
        }
    }

    /// What a signed statement adds to the log, judged as an outsider would.
    pub(super) fn entry(
        &self,
        kind: SignedKind,
        signed: &SignedPayload,
        lineage: Option<Lineage>,
    ) -> Result<(ApprovalEntry, Draft), ApprovalError> {
        let payload = JsonObject::of("the signed statement", signed)?;
        let unreadable = |reason| ComposeError { what: "the signed statement", reason };
        let (entry, _) = ApprovalEntry::read(kind.as_str(), &payload).map_err(unreadable)?;
        let is_first = !self.judge.had_people() && kind == SignedKind::Enrolment;
        let state = match &entry {
            ApprovalEntry::Enrolment(_) => Literal::new("enrolled"),
            ApprovalEntry::Invitation(_) => Literal::new("invited"),
            ApprovalEntry::Revocation(_) => Literal::new("revoked"),
            ApprovalEntry::Rules(_) => Literal::new("in_force"),
            ApprovalEntry::Verdict(statement, _) => match statement.decision.as_str() {
                "approve" => Literal::new("approve"),
                _ => Literal::new("reject"),
            },
            ApprovalEntry::Passkey(_) | ApprovalEntry::Landing(_) | ApprovalEntry::Outcome(_) => {
                return Err(ApprovalError::OtherEvidence);
            }
        };
        let nonce = entry.nonce().ok_or(ApprovalError::OtherEvidence)?;
        let key = if is_first { FIRST_ADMIN_KEY.to_owned() } else { nonce_key(nonce) };
        self.check(&entry, Some(signed), &key)?;
        let draft = approvals_draft(kind.entry_type(), state, payload, lineage, &key)?;
        Ok((entry, draft))
    }
}

impl ApprovalHistory {
    /// Judges what would be written now under a key, as an outsider would.
    pub(super) fn check(
        &self,
        entry: &ApprovalEntry,
        signed: Option<&SignedPayload>,
        key: &str,
    ) -> Result<(), ApprovalError> {
        let placeholder = LedgerId::from(Literal::new("not-written-yet"));
        let now = self.place.now.instant();
        let judged = ApprovalLog::clone(&self.judge).judge(entry, signed, Some(key), &placeholder, now);
        judged.map(|_| ()).map_err(ApprovalError::Refused)
    }
}

/// Records a statement that an admin signed: an enrolment, an invitation, a revocation or rules.
///
/// # Errors
/// When an outsider would refuse it, or the ledger cannot be written.
pub fn record(
    ledger: &Ledger,
    tenant: &TenantId,
    kind: SignedKind,
    signed: &SignedPayload,
) -> Result<AppendedEntry, ApprovalError> {
    let written = append_at_end(ledger, tenant, || {
        let history = ApprovalHistory::load_or_start(ledger, tenant)?;
        let (_, draft) = history.entry(kind, signed, None)?;
        Ok(Some((history.place.clone(), vec![(None, draft)])))
    })?;
    first(written)
}

/// The same, and safe to repeat: a statement that is recorded exactly so is not refused.
///
/// # Errors
/// The same.
pub fn record_once(
    ledger: &Ledger,
    tenant: &TenantId,
    kind: SignedKind,
    signed: &SignedPayload,
) -> Result<AppendedEntry, ApprovalError> {
    if let Some(entry) = recorded(ledger, tenant, kind, signed)? {
        return Ok(entry);
    }
    match record(ledger, tenant, kind, signed) {
        // Someone may have recorded it while this was judged.
        Err(error) if error.is_refusal() => recorded(ledger, tenant, kind, signed)?.ok_or(error),
        done => done,
    }
}

/// The entry of a signed statement that is recorded already, with this very signature.
pub(super) fn recorded(
    ledger: &Ledger,
    tenant: &TenantId,
    kind: SignedKind,
    signed: &SignedPayload,
) -> Result<Option<AppendedEntry>, ApprovalError> {
    let payload = JsonObject::of("the signed statement", signed)?;
    let unreadable = |reason| ComposeError { what: "the signed statement", reason };
    let (read, _) = ApprovalEntry::read(kind.as_str(), &payload).map_err(unreadable)?;
    let Some(nonce) = read.nonce() else { return Ok(None) };
    for key in [nonce_key(nonce).as_str(), FIRST_ADMIN_KEY] {
        let Some(entry) = ledger.get_by_key(tenant, &ClientKey::parse(key)?)? else { continue };
        let is_it = entry.content.module.as_str() == APPROVALS.as_str()
            && entry.content.kind.as_str() == kind.as_str()
            && entry.to_entry().payload.is_some_and(|stored| stored.canonical() == payload.canonical());
        if is_it {
            let StoredEntry { id, seq, created_at, .. } = entry;
            return Ok(Some(AppendedEntry { id, seq, created_at, is_repeat: true }));
        }
    }
    Ok(None)
}

/// Whether verdicts must be signed: someone was enrolled, now or ever.
///
/// # Errors
/// When the ledger cannot be read.
pub fn is_unsigned_refused(ledger: &Ledger, tenant: &TenantId) -> Result<bool, LedgerError> {
    let key = ClientKey::parse(FIRST_ADMIN_KEY);
    let key = key.map_err(|_| LedgerError::Closed)?;
    Ok(ledger.get_by_key(tenant, &key)?.is_some())
}

/// The rules in force, in the order in which they are tried; none before anyone was enrolled.
///
/// # Errors
/// When the ledger cannot be read.
pub fn rules_in_force(ledger: &Ledger, tenant: &TenantId) -> Result<Vec<ApprovalRule>, ApprovalError> {
    // Most tenants have no one, and then no signature has to be checked.
    if !is_unsigned_refused(ledger, tenant)? {
        return Ok(Vec::new());
    }
    let history = ApprovalHistory::load(ledger, tenant)?;
    Ok(history.map_or_else(Vec::new, |history| history.judge.rules().to_vec()))
}

/// Why a verdict that no one signed was not written.
#[derive(Clone, Debug, PartialEq)]
pub enum UnsignedError {
    /// People are enrolled.
    Refused,
    /// It cannot be appended to the ledger.
    Append(AppendError),
}

/// Appends a verdict that no one signed, if no one was ever enrolled; that is checked in the same step.
///
/// # Errors
/// When someone was, or the ledger cannot be written.
pub fn append_unsigned(
    ledger: &Ledger,
    tenant: &TenantId,
    batch: &[Draft],
) -> Result<Vec<AppendedEntry>, UnsignedError> {
    let failed = |error: LedgerError| UnsignedError::Append(error.into());
    for _ in 0..MAX_READS {
        let end = ledger.last_seq(tenant).map_err(failed)?;
        if is_unsigned_refused(ledger, tenant).map_err(failed)? {
            return Err(UnsignedError::Refused);
        }
        let batch = batch.iter().map(|draft| (None, draft.clone())).collect();
        match ledger.append_at(tenant, end, batch) {
            Err(AppendError::Refused { refusal: EntryRefusal::Moved { .. }, .. }) => {}
            written => return written.map_err(UnsignedError::Append),
        }
    }
    Err(failed(LedgerError::Overloaded { waiting: MAX_READS }))
}

/// Where something was decided, and what is to be written for it.
pub(super) type Decided = Option<(LogPlace, Vec<(Option<NewId>, Draft)>)>;

/// Decides from the log and writes what follows in one step: if the log has grown in between, it is decided again.
pub(super) fn append_at_end(
    ledger: &Ledger,
    tenant: &TenantId,
    mut decide: impl FnMut() -> Result<Decided, ApprovalError>,
) -> Result<Vec<AppendedEntry>, ApprovalError> {
    for _ in 0..MAX_READS {
        let Some((place, batch)) = decide()? else { return Ok(Vec::new()) };
        match ledger.append_at(tenant, place.seq, batch) {
            Err(AppendError::Refused { refusal: EntryRefusal::Moved { .. }, .. }) => {}
            Err(AppendError::Ledger(error)) => return Err(error.into()),
            Err(error) => return Err(ApprovalError::Unwritten(error)),
            Ok(written) => return Ok(written),
        }
    }
    Err(ApprovalError::Busy(MAX_READS))
}

pub(super) fn first(written: Vec<AppendedEntry>) -> Result<AppendedEntry, ApprovalError> {
    written.into_iter().next().ok_or(ApprovalError::Ledger(LedgerError::Closed))
}

/// An entry of the module, about the tenant.
pub(super) fn approvals_draft(
    kind: Literal,
    state: Literal,
    payload: JsonObject,
    lineage: Option<Lineage>,
    key: &str,
) -> Result<Draft, ApprovalError> {
    Ok(Draft {
        robot_id: RobotId::from(TENANT_ROBOT),
        module: Name::from(APPROVALS),
        source: Name::from(Literal::new("person")),
        kind: Name::from(kind),
        state: Name::from(state),
        payload,
        lineage,
        observed_at: None,
        key: Some(ClientKey::parse(key)?),
    })
}

/// A lineage of these entries.
pub(super) fn resting_on(ids: Vec<LedgerId>, draft: &Entry) -> Option<Lineage> {
    let execution_id = draft.lineage.as_ref().and_then(|lineage| lineage.execution_id.clone());
    Some(Lineage { depends_on: Set::new(ids), execution_id, rerun_of: None })
}

/// Every entry about approvals after a place, in the order of the log.
pub(super) fn approval_entries(view: &mut LogView<'_>, after: Seq) -> Result<Vec<Entry>, LedgerError> {
    let unsigned = [PASSKEY_ENROLMENT, LANDING, LANDING_OUTCOME];
    let kinds = SignedKind::ALL.iter().map(|kind| kind.entry_type()).chain(unsigned);
    let mut entries = Vec::new();
    for kind in kinds {
        let filter = Filter {
            robot_id: Some(RobotId::from(TENANT_ROBOT)),
            kind: Some(Name::from(kind)),
            module: Some(Name::from(APPROVALS)),
            ..Filter::default()
        };
        let mut cursor = (after > Seq::ZERO).then(|| Cursor::after(after));
        loop {
            let page = view.list(&filter, Order::OldestFirst, cursor, PAGE_ENTRIES)?;
            entries.extend(page.entries.iter().map(|entry| entry.to_entry()));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    entries.sort_by_key(|entry| entry.seq);
    Ok(entries)
}

/// Judges the next entry of a log; one that an outsider refuses has a problem and leaves no trace in the judge.
pub(super) fn judge_next(judge: &mut ApprovalLog, entry: &Entry) -> Option<LoggedApproval> {
    judge.add(entry).unwrap_or_else(|finding| disbelieved(entry, finding.what))
}

/// An entry that an outsider refuses, kept to be shown; `None` if it cannot even be read.
fn disbelieved(entry: &Entry, problem: String) -> Option<LoggedApproval> {
    let payload = entry.payload.as_ref()?;
    let (read, _) = ApprovalEntry::read(entry.kind.as_str(), payload).ok()?;
    Some(LoggedApproval {
        id: entry.id.clone(),
        seq: entry.seq.map_or(0, |seq| seq.get()),
        at: entry.created_at.instant(),
        entry: read,
        authenticator: None,
        problem: Some(problem),
    })
}

/// A number as documents have it.
pub(super) fn count(number: u64) -> Result<Count, ApprovalError> {
    let too_large = || ComposeError { what: "the number", reason: format!("{number} is too large for JSON") };
    Ok(Count::new(number).ok_or_else(too_large)?)
}
