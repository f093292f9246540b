//! A subject of approval with everything needed to judge a verdict on it: a draft or a held change, the log it was read in, and its state.

use std::collections::BTreeMap;

use crealeph_contracts::approval::{ApprovalEntry, LoggedApproval};
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use crealeph_decision::approval::{ApprovalSubject, SubjectOutcome, SubjectState};
use crealeph_decision::builder::Record;
use crealeph_ledger::{Cursor, Filter, Ledger, LedgerError, LogView, Order, Seq, StoredEntry};

use super::change::{change_case, held_change};
use super::draft::{Evidence, draft_case};
use super::error::ApprovalError;
use super::history::ApprovalHistory;
use crate::builder::Scopes;

/// A subject, the log it was read in, and its state.
#[derive(Clone, Debug)]
pub struct SubjectCase {
    /// Its entry: the draft itself, or the entry that holds the change.
    pub entry: StoredEntry,
    /// As a subject.
    pub subject: ApprovalSubject,
    /// What it is, and what it is based on.
    pub basis: SubjectBasis,
    /// What the log says of approvals, at its end.
    pub history: ApprovalHistory,
    /// The entries that determine its state, in the order of the log, up to the moment that it is judged at.
    pub log: Vec<LoggedApproval>,
    /// Its state.
    pub state: SubjectState,
}

/// What a subject is, and what it is based on.
#[derive(Clone, Debug)]
pub enum SubjectBasis {
    /// A draft.
    Draft {
        /// The record of the attempt that made it, if one names it.
        record: Option<Box<Record>>,
        /// The newest evidence that it is based on.
        evidence: Vec<Evidence>,
    },
    /// A held change.
    Change(Box<HeldChangeRecord>),
}

impl SubjectBasis {
    /// The change, if it is one.
    pub fn change(&self) -> Option<&HeldChangeRecord> {
        match self {
            SubjectBasis::Draft { .. } => None,
            SubjectBasis::Change(record) => Some(record),
        }
    }

    /// The evidence that a draft is based on.
    pub fn evidence(&self) -> &[Evidence] {
        match self {
            SubjectBasis::Draft { evidence, .. } => evidence,
            SubjectBasis::Change(_) => &[],
        }
    }
}

/// What remains to be done about a subject, and where; `None` if nothing does.
pub fn next_step(outcome: &SubjectOutcome, change: Option<&HeldChangeRecord>) -> Option<String> {
    match (outcome, change) {
        (SubjectOutcome::Waiting { missing }, _) => Some(format!("approvals missing: {missing}")),
        (SubjectOutcome::Landed { .. }, _) | (SubjectOutcome::Rejected { .. }, None) => None,
        // A change lands, or is discarded, under the lock of its workspace. The log does not say when one was discarded.
        (outcome, Some(change)) => {
            let what = match outcome {
                SubjectOutcome::Rejected { .. } => "discards it, if that has not happened yet",
                _ => "carries it out",
            };
            Some(format!(
                "the next `crealeph work run` or `crealeph work recover` in the workspace {} {what}",
                change.workspace
            ))
        }
        (_, None) => Some("send the verdict again to land it".to_owned()),
    }
}

/// An earlier place of the log, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The last entry that counts.
    pub seq: Seq,
    /// The time.
    pub at: Instant,
}

/// Reads subjects of a tenant.
#[derive(Clone, Copy, Debug)]
pub struct SubjectReader<'r> {
    /// The ledger.
    pub ledger: &'r Ledger,
    /// The tenant.
    pub tenant: &'r TenantId,
    /// The configuration of its robots.
    pub scopes: &'r Scopes,
}

impl SubjectReader<'_> {
    /// Reads a subject: a draft by the id of its entry, a held change by its run.
    ///
    /// # Errors
    /// When there is none, it was decided before anyone was enrolled, or the ledger cannot be read.
    pub fn read(&self, id: &LedgerId) -> Result<SubjectCase, ApprovalError> {
        self.read_from(id, None)
    }

    /// The entries that a draft is based on, by their place in the log, for those who want to read them.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn evidence_ids(&self, case: &SubjectCase) -> Result<BTreeMap<u64, LedgerId>, ApprovalError> {
        let read = self.ledger.view(self.tenant, |view| {
            let mut ids = BTreeMap::new();
            for used in case.basis.evidence() {
                let before = Seq::new(used.seq.saturating_sub(1)).map(Cursor::after);
                let page = view.list(&Filter::default(), Order::OldestFirst, before, 1)?;
                let found = page.entries.into_iter().find(|entry| entry.seq.get() == used.seq);
                ids.extend(found.map(|entry| (used.seq, entry.id)));
            }
            Ok(ids)
        })?;
        read.ok_or_else(|| ApprovalError::NoEntry(case.subject.id.clone()))
    }

    /// A subject that landed, or is about to, as it was when that was decided; nothing if it has not.
    ///
    /// # Errors
    /// The same.
    pub fn read_at_landing(&self, case: &SubjectCase) -> Result<Option<SubjectCase>, ApprovalError> {
        let Some((landing, record)) = case.state.outcome.landing() else { return Ok(None) };
        let checked = Seq::new(record.checked_seq.get());
        let own = case.history.entries.about(&case.subject.id, u64::MAX);
        let logged = own.into_iter().find(|logged| logged.id == *landing);
        let (Some(seq), Some(logged)) = (checked, logged) else { return Ok(None) };
        Ok(Some(self.read_from(&case.subject.id, Some(Moment { seq, at: logged.at }))?))
    }

    fn read_from(&self, id: &LedgerId, moment: Option<Moment>) -> Result<SubjectCase, ApprovalError> {
        let SubjectReader { ledger, tenant, scopes } = *self;
        match held_change(ledger, tenant, id)? {
            Some((entry, record)) => change_case(ledger, tenant, entry, record, moment),
            None => draft_case(ledger, tenant, scopes, id, moment),
        }
    }
}

/// The entries that determine the state of a subject, up to a moment. A verdict that names another root than the log had at its place has a
/// problem.
pub(super) fn entries_about(
    view: &mut LogView<'_>,
    history: &ApprovalHistory,
    subject: &LedgerId,
    moment: Option<Moment>,
) -> Result<Vec<LoggedApproval>, LedgerError> {
    let about = history.entries.about(subject, moment.map_or(u64::MAX, |moment| moment.seq.get()));
    let mut found: Vec<LoggedApproval> = about.into_iter().cloned().collect();
    for logged in &mut found {
        let ApprovalEntry::Verdict(statement, _) = &logged.entry else { continue };
        let seq = Seq::new(statement.evidence_seq.get());
        let root = seq.map_or(Ok(None), |seq| view.root_at(seq))?;
        if root != Some(statement.evidence_root) {
            logged.problem.get_or_insert_with(|| "was signed over another state of the log".to_owned());
        }
    }
    Ok(found)
}
