//! Reviews of drafts (R14): which drafts are pending, and one verdict each, written with what follows from it in one
//! transaction.

use std::sync::Arc;

use crate::approvals::{RejectedSubjects, UnsignedError, append_unsigned};
use crate::builder::{BuildError, NamingRecords, is_made_by_builder};
use crealeph_contracts::approval::LANDING;
use crealeph_contracts::scalar::{IdentifierError, LedgerId, Name, RobotId, TenantId, Text};
use crealeph_decision::builder::Record;
use crealeph_decision::builder::conclude::BUILDER;
use crealeph_decision::builder::review::{REVIEW, ReviewError, ReviewOpinion, review};
use crealeph_ledger::{
    AppendError, AppendedEntry, Cursor, EntryRefusal, Filter, Ledger, LedgerError, Order, Seq, StoredEntry,
};

/// How many drafts are read at a time to be counted.
const COUNTED_PAGE: usize = 100;

/// Why a verdict was not written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VerdictError {
    /// There is no such entry.
    #[error("the ledger has no entry `{0}` of this tenant; find drafts with `crealeph review list`")]
    NoEntry(LedgerId),
    /// It is not a draft that people review.
    #[error(transparent)]
    NotReviewed(#[from] ReviewError),
    /// It looks like a draft, and no record names it.
    #[error(
        "no record of the Builder names entry `{0}`, so it is not a draft of the Builder; only those are reviewed"
    )]
    NotTheBuilders(LedgerId),
    /// The records of its execution could not be read.
    #[error(transparent)]
    Records(#[from] BuildError),
    /// Someone has said otherwise already.
    #[error("draft `{draft}` has a verdict already, entry `{existing}`; a verdict cannot be changed")]
    Settled {
        /// The draft.
        draft: LedgerId,
        /// The entry of the verdict.
        existing: LedgerId,
    },
    /// Verdicts are signed in this tenant.
    #[error("people are enrolled in this tenant, so a verdict must be signed")]
    Unsigned,
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// It cannot be appended to the ledger.
    #[error("cannot append the verdict to the ledger; nothing was written: {0}")]
    Unwritten(AppendError),
    /// A name is not valid.
    #[error("internal error: the verdict has an invalid name: {0}; please report it")]
    Name(#[from] IdentifierError),
}

impl VerdictError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            VerdictError::NoEntry(_) => "unknown_id",
            VerdictError::NotReviewed(_) | VerdictError::NotTheBuilders(_) => "not_a_draft",
            VerdictError::Records(error) => error.code(),
            VerdictError::Settled { .. } => "IDEMPOTENCY_CONFLICT",
            VerdictError::Unsigned => "unsigned",
            VerdictError::Ledger(error) => error.code(),
            VerdictError::Unwritten(error) => error.code(),
            VerdictError::Name(_) => "bad_name",
        }
    }
}

/// The drafts that wait for approval: no review is based on them.
fn waiting_filter(robot: Option<&RobotId>) -> Result<Filter, VerdictError> {
    Ok(Filter {
        robot_id: robot.cloned(),
        module: Some(Name::from(BUILDER)),
        state: Some(Name::parse("draft")?),
        without_children: vec![Name::from(REVIEW), Name::from(LANDING)],
        ..Filter::default()
    })
}

/// How many drafts of a robot wait for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingDrafts {
    /// Those that were found.
    pub count: u64,
    /// The robot has older drafts that were not looked at, so more may wait.
    pub is_cut: bool,
}

/// Counts the drafts of a robot that wait for approval, among all of its drafts or among this many of the newest. Those that
/// someone rejected do not wait.
pub fn count_waiting(
    ledger: &Ledger,
    tenant: &TenantId,
    rejected: &RejectedSubjects,
    robot: &RobotId,
    newest: Option<usize>,
) -> Result<WaitingDrafts, VerdictError> {
    let cut = newest.map_or(Ok(None), |newest| ledger.draft_after(tenant, robot, newest))?;
    let after = cut.unwrap_or(Seq::ZERO);
    let unreserved = ledger.first_rules_end(tenant)?;
    let mut count = reserved_waiting(ledger, tenant, rejected, robot, after.max(unreserved))?;
    // Under the first rules of a log anyone could write what looks like a draft, so each is compared with its record.
    let mut cursor = (unreserved > after).then(|| Cursor::after(unreserved.next()));
    while let Some(at) = cursor {
        let (drafts, next) = waiting(ledger, tenant, Some(robot), Some(at), COUNTED_PAGE)?;
        count += drafts.iter().filter(|draft| draft.seq > after).count() as u64;
        cursor = next.filter(|_| drafts.last().is_none_or(|draft| draft.seq > after));
    }
    Ok(WaitingDrafts { count, is_cut: cut.is_some() })
}

/// Counts the drafts of a robot that wait for approval after a place from which on only the Builder writes drafts.
fn reserved_waiting(
    ledger: &Ledger,
    tenant: &TenantId,
    rejected: &RejectedSubjects,
    robot: &RobotId,
    after: Seq,
) -> Result<u64, VerdictError> {
    let waiting = waiting_filter(Some(robot))?;
    let reviews =
        Filter { robot_id: Some(robot.clone()), kind: Some(Name::from(REVIEW)), ..Filter::default() };
    // If every verdict is signed, those that were decided need not be looked at one by one.
    if let Some(decided) = rejected.decided_drafts_after(robot, after)
        && ledger.list(tenant, &reviews, Order::OldestFirst, None, 1)?.entries.is_empty()
    {
        let drafts = Filter { without_children: Vec::new(), ..waiting };
        return Ok(ledger.count(tenant, &drafts, after)?.saturating_sub(decided));
    }
    let count = ledger.count(tenant, &waiting, after)?;
    Ok(count.saturating_sub(rejected.drafts_after(robot, after)))
}

/// A page of drafts that wait for approval, newest first, and where it continues.
pub fn waiting(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<StoredEntry>, Option<Cursor>), VerdictError> {
    let (drafts, next) = waiting_with_records(ledger, tenant, robot, cursor, limit)?;
    Ok((drafts.into_iter().map(|(draft, _)| draft).collect(), next))
}

/// A draft, and the record of the attempt that made it.
pub(crate) type RecordedDraft = (StoredEntry, Option<Arc<Record>>);

/// The same with the record of each draft.
pub(crate) fn waiting_with_records(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<RecordedDraft>, Option<Cursor>), VerdictError> {
    let page = ledger.list(tenant, &waiting_filter(robot)?, Order::NewestFirst, cursor, limit)?;
    let rejected = RejectedSubjects::read(ledger, tenant)?;
    let mut records = NamingRecords::new(ledger, tenant);
    let mut drafts = Vec::new();
    for draft in page.entries.into_iter().filter(|draft| !rejected.contains(&draft.id)) {
        let record = records.of(&draft)?;
        // Under the first rules of a log anyone could write what looks like a draft.
        if record.is_some() || is_made_by_builder(ledger, tenant, &draft)? {
            drafts.push((draft, record));
        }
    }
    Ok((drafts, page.next))
}

/// Writes a verdict on a draft; on approval the planned artifact follows the review in what is returned.
pub fn settle(
    ledger: &Ledger,
    tenant: &TenantId,
    draft: &LedgerId,
    opinion: ReviewOpinion,
    who: &Text,
    why: &Text,
) -> Result<Vec<AppendedEntry>, VerdictError> {
    let entry = ledger.get(tenant, draft)?.ok_or_else(|| VerdictError::NoEntry(draft.clone()))?;
    let batch = review(&entry.to_entry(), opinion, who, why)?;
    if !is_made_by_builder(ledger, tenant, &entry)? {
        return Err(VerdictError::NotTheBuilders(draft.clone()));
    }
    append_unsigned(ledger, tenant, &batch).map_err(|error| match error {
        UnsignedError::Refused => VerdictError::Unsigned,
        UnsignedError::Append(AppendError::Ledger(error)) => error.into(),
        UnsignedError::Append(AppendError::Refused {
            refusal: EntryRefusal::Conflict { existing, .. },
            ..
        }) => VerdictError::Settled { draft: draft.clone(), existing },
        UnsignedError::Append(error) => VerdictError::Unwritten(error),
    })
}
