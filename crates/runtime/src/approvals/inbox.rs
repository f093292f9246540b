//! What awaits approval: drafts and held changes, with the rule that applies to each, who may decide and how many approvals are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crealeph_contracts::approval::{APPROVALS, SignedKind, TENANT_ROBOT};
use crealeph_contracts::held_change::{HELD, HELD_CHANGE, HeldChangeRecord};
use crealeph_contracts::scalar::{LedgerId, Name, RobotId, TenantId};
use crealeph_decision::approval::{ApprovalEntries, ApprovalSubject, People, SubjectState, derive};
use crealeph_decision::snapshot::NewestEntries;
use crealeph_ledger::{Cursor, Filter, Ledger, LedgerError, Order, Seq, StoredEntry};

use super::approver::Approver;
use super::case::SubjectReader;
use super::change::{WORK, change_of, change_subject};
use super::draft::subject_of;
use super::error::ApprovalError;
use super::history::ApprovalHistory;
use super::kept_history::{DecidedDraft, DecidedDrafts, is_kept};
use crate::builder::Scopes;
use crate::entries::{NewestPage, merged_newest};
use crate::review::waiting_with_records;
use crate::work::receipt::RUN_RECEIPT;

/// How many pages of what waits are read for a page of what waits for one person.
const MAX_SCANNED_PAGES: usize = 10;

/// Something that waits.
#[derive(Clone, Debug)]
pub struct InboxItem {
    /// The draft, or the entry that holds a change.
    pub entry: StoredEntry,
    /// As a subject.
    pub subject: ApprovalSubject,
    /// The change, if it is one.
    pub change: Option<Box<HeldChangeRecord>>,
    /// Its state; `None` while no one is enrolled.
    pub state: Option<SubjectState>,
}

type ItemPage = NewestPage<InboxItem>;

/// A page of what waits, newest first, and where it continues. Changes are of no robot, so of one robot these are drafts.
///
/// # Errors
/// When the ledger cannot be read.
pub fn inbox(
    of: SubjectReader<'_>,
    robot: Option<&RobotId>,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<ItemPage, ApprovalError> {
    let history = judged(of)?;
    let reader = InboxReader::of(of, history.as_ref());
    let drafts = reader.drafts(robot, cursor, limit)?;
    match robot {
        None => Ok(merged_newest(drafts, reader.changes(cursor, limit)?, limit, |item| item.entry.seq)),
        Some(_) => Ok(drafts),
    }
}

/// A page of what waits for one person, and how much was looked at for it.
#[derive(Clone, Debug)]
pub struct InboxScan {
    /// What waits for them, newest first.
    pub items: Vec<InboxItem>,
    /// Where the list continues.
    pub next: Option<Cursor>,
    /// How much of what waits was looked at.
    pub looked_at: u64,
}

/// A page of what waits for one person, newest first. It may have fewer than asked for, and still continue.
///
/// # Errors
/// When the ledger cannot be read.
pub fn awaited_inbox(
    of: SubjectReader<'_>,
    robot: Option<&RobotId>,
    approver: &Approver,
    (cursor, limit): (Option<Cursor>, usize),
) -> Result<InboxScan, ApprovalError> {
    let mut scan = InboxScan { items: Vec::new(), next: cursor, looked_at: 0 };
    for _ in 0..MAX_SCANNED_PAGES {
        let (items, next) = inbox(of, robot, scan.next, limit)?;
        for item in items {
            if scan.items.len() >= limit {
                return Ok(scan);
            }
            scan.looked_at += 1;
            scan.next = Some(Cursor::after(item.entry.seq));
            scan.items.extend(approver.is_awaited(&item).then_some(item));
        }
        scan.next = next;
        if next.is_none() {
            break;
        }
    }
    Ok(scan)
}

/// A page of the held changes that wait, newest first, and where it continues.
///
/// # Errors
/// When the ledger cannot be read.
pub fn waiting_changes(
    of: SubjectReader<'_>,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<ItemPage, ApprovalError> {
    InboxReader::of(of, judged(of)?.as_ref()).changes(cursor, limit)
}

/// What the log says of approvals, if anyone was enrolled.
fn judged(of: SubjectReader<'_>) -> Result<Option<ApprovalHistory>, ApprovalError> {
    let history = ApprovalHistory::load(of.ledger, of.tenant)?;
    Ok(history.filter(|history| history.judge.had_people()))
}

/// Reads what waits, by what the log says of approvals.
struct InboxReader<'r> {
    ledger: &'r Ledger,
    tenant: &'r TenantId,
    scopes: &'r Scopes,
    history: Option<&'r ApprovalHistory>,
}

impl<'r> InboxReader<'r> {
    fn of(of: SubjectReader<'r>, history: Option<&'r ApprovalHistory>) -> Self {
        let SubjectReader { ledger, tenant, scopes } = of;
        InboxReader { ledger, tenant, scopes, history }
    }

    fn drafts(
        &self,
        robot: Option<&RobotId>,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<ItemPage, ApprovalError> {
        let InboxReader { ledger, tenant, scopes, .. } = self;
        let (drafts, next) = waiting_with_records(ledger, tenant, robot, cursor, limit)?;
        let mut robots: BTreeMap<RobotId, NewestEntries> = BTreeMap::new();
        let mut items = Vec::new();
        for (entry, record) in drafts {
            let robot = entry.content.robot_id.clone();
            let rules = &scopes.of(tenant, &robot).coherence;
            if !robots.contains_key(&robot)
                && let Some(known) = ledger.newest(tenant, &robot, rules)?
            {
                robots.insert(robot.clone(), known);
            }
            let newest = ledger.view(tenant, |view| view.entry_with_reach(&entry.id))?.flatten();
            let (Some(known), Some(newest)) = (robots.get(&robot), newest) else { continue };
            let subject = subject_of(&entry, record.as_deref(), &newest, known, rules);
            items.extend(self.item(entry, subject, None)?);
        }
        Ok((items, next))
    }

    /// Held changes of all workspaces whose run has no receipt yet: with that it has ended.
    fn changes(&self, cursor: Option<Cursor>, limit: usize) -> Result<ItemPage, ApprovalError> {
        let InboxReader { ledger, tenant, .. } = self;
        let filter = Filter { without_children: vec![Name::from(RUN_RECEIPT)], ..held_changes() };
        let page = ledger.list(tenant, &filter, Order::NewestFirst, cursor, limit)?;
        let people = self.history.map_or_else(People::default, |history| history.entries.people(u64::MAX));
        let mut items = Vec::new();
        for entry in page.entries {
            let Some(record) = change_of(&entry) else { continue };
            let subject = change_subject(&record, &people)?;
            items.extend(self.item(entry, subject, Some(Box::new(record)))?);
        }
        Ok((items, page.next))
    }

    /// A subject that is not decided.
    fn item(
        &self,
        entry: StoredEntry,
        subject: ApprovalSubject,
        change: Option<Box<HeldChangeRecord>>,
    ) -> Result<Option<InboxItem>, ApprovalError> {
        let state = match self.history {
            Some(history) => {
                let log = history.entries.about(&subject.id, u64::MAX);
                Some(derive(&log, &subject, history.place.now.instant())?)
            }
            None => None,
        };
        let is_open = state.as_ref().is_none_or(|state| state.outcome.is_open());
        Ok(is_open.then_some(InboxItem { entry, subject, change, state }))
    }
}

/// The held changes of a tenant.
fn held_changes() -> Filter {
    Filter {
        robot_id: Some(RobotId::from(TENANT_ROBOT)),
        kind: Some(Name::from(HELD_CHANGE)),
        state: Some(Name::from(HELD)),
        module: Some(Name::from(WORK)),
        ..Filter::default()
    }
}

/// The subjects that someone rejected, with a key that was not revoked since; and which drafts landed, if that is known.
#[derive(Clone, Debug, Default)]
pub struct RejectedSubjects {
    entries: Arc<ApprovalEntries>,
    decided: Option<Arc<DecidedDrafts>>,
    people: People,
}

impl RejectedSubjects {
    /// Those of a tenant.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn read(ledger: &Ledger, tenant: &TenantId) -> Result<Self, LedgerError> {
        // Most tenants have no rejection, and then no signature has to be checked for it.
        if !is_kept(ledger, tenant) && !has_rejection(ledger, tenant)? {
            return Ok(Self::default());
        }
        match ApprovalHistory::load(ledger, tenant) {
            Ok(Some(ApprovalHistory { entries, decided_drafts, .. })) => {
                let (people, decided) = (entries.people(u64::MAX), Some(decided_drafts));
                Ok(RejectedSubjects { people, entries, decided })
            }
            Ok(None) => Ok(Self::default()),
            Err(ApprovalError::Ledger(error)) => Err(error),
            Err(_) => Err(LedgerError::Closed),
        }
    }

    /// Whether this is one.
    pub fn contains(&self, subject: &LedgerId) -> bool {
        self.entries.is_rejected(subject, &self.people)
    }

    /// How many of them are drafts of a robot after a place of the log.
    pub fn drafts_after(&self, robot: &RobotId, after: Seq) -> u64 {
        self.counted(robot, |draft| draft.seq > after && self.contains(&draft.id)).unwrap_or(0)
    }

    /// How many drafts of a robot after a place of the log landed or were rejected; `None` if that is not known.
    pub fn decided_drafts_after(&self, robot: &RobotId, after: Seq) -> Option<u64> {
        self.counted(robot, |draft| draft.seq > after && (draft.is_landed || self.contains(&draft.id)))
    }

    fn counted(&self, robot: &RobotId, counts: impl Fn(&DecidedDraft) -> bool) -> Option<u64> {
        let own = self.decided.as_ref()?.get(robot).map_or(&[][..], Vec::as_slice);
        let ids: BTreeSet<&LedgerId> =
            own.iter().filter(|draft| counts(draft)).map(|draft| &draft.id).collect();
        Some(ids.len() as u64)
    }
}

fn has_rejection(ledger: &Ledger, tenant: &TenantId) -> Result<bool, LedgerError> {
    let named = |name: &str| Name::parse(name).map_err(|_| LedgerError::Closed);
    let filter = Filter {
        robot_id: Some(RobotId::from(TENANT_ROBOT)),
        kind: Some(Name::from(SignedKind::Verdict.entry_type())),
        state: Some(named("reject")?),
        module: Some(Name::from(APPROVALS)),
        ..Filter::default()
    };
    Ok(!ledger.list(tenant, &filter, Order::OldestFirst, None, 1)?.entries.is_empty())
}
