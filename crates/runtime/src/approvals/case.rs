//! A subject of approval with all that a verdict on it is judged by: a draft or a held change, the log it was read in, and how it stands.

use std::collections::BTreeSet;

use crealeph_contracts::approval::ApprovalEntry;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use crealeph_decision::approval::{ApprovalSubject, SubjectState};
use crealeph_decision::builder::Record;
use crealeph_ledger::{Ledger, LedgerError, LogPlace, LogView, Seq, StoredEntry};

use super::change::{change_case, held_change};
use super::draft::{Evidence, draft_case};
use super::error::ApprovalError;
use super::history::ApprovalHistory;
use crate::builder::Scopes;

/// A subject, the log it was read in, and how it stands.
#[derive(Clone, Debug)]
pub struct SubjectCase {
    /// Its entry: the draft itself, or the entry that holds the change.
    pub entry: StoredEntry,
    /// As a subject.
    pub subject: ApprovalSubject,
    /// What it is, and what it rests on.
    pub basis: SubjectBasis,
    /// What the log says of approvals.
    pub history: ApprovalHistory,
    /// How it stands.
    pub state: SubjectState,
}

/// What a subject is, and what it rests on.
#[derive(Clone, Debug)]
pub enum SubjectBasis {
    /// A draft.
    Draft {
        /// The record of the attempt that made it, if one names it.
        record: Option<Box<Record>>,
        /// The newest evidence that it rests on.
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

    /// The evidence that a draft rests on.
    pub fn evidence(&self) -> &[Evidence] {
        match self {
            SubjectBasis::Draft { evidence, .. } => evidence,
            SubjectBasis::Change(_) => &[],
        }
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
    /// Whose part of it.
    pub tenant: &'r TenantId,
    /// The configuration of its robots.
    pub scopes: &'r Scopes,
}

impl SubjectReader<'_> {
    /// Reads a subject: a draft by the id of its entry, a held change by its run.
    ///
    /// # Errors
    /// When there is none, it was decided before anybody was enrolled, or the ledger cannot be read.
    pub fn read(&self, id: &LedgerId) -> Result<SubjectCase, ApprovalError> {
        self.read_from(id, None)
    }

    /// A subject that landed, or is about to, as it stood when that was decided; nothing if it has not.
    ///
    /// # Errors
    /// The same.
    pub fn read_at_landing(&self, case: &SubjectCase) -> Result<Option<SubjectCase>, ApprovalError> {
        let Some((landing, record)) = case.state.outcome.landing() else { return Ok(None) };
        let checked = Seq::new(record.checked_seq.get());
        let logged = case.history.log.iter().find(|logged| logged.id == *landing);
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

/// The verdicts on a subject that name another root than the log had at their place.
pub(super) fn doubted(
    view: &mut LogView<'_>,
    entries: &[Entry],
    subject: &LedgerId,
) -> Result<BTreeSet<LedgerId>, LedgerError> {
    let mut doubted = BTreeSet::new();
    for entry in entries {
        let read = entry.payload.as_ref().map(|payload| ApprovalEntry::read(entry.kind.as_str(), payload));
        let Some(Ok((ApprovalEntry::Verdict(statement, _), _))) = read else { continue };
        if statement.subject_id != *subject {
            continue;
        }
        let seq = Seq::new(statement.evidence_seq.get());
        let root = seq.map_or(Ok(None), |seq| view.root_at(seq))?;
        if root != Some(statement.evidence_root) {
            doubted.insert(entry.id.clone());
        }
    }
    Ok(doubted)
}

/// The history of these entries, up to a moment; verdicts that are doubted have a problem.
pub(super) fn judged_history(
    tenant: &TenantId,
    mut entries: Vec<Entry>,
    doubted: &BTreeSet<LedgerId>,
    place: LogPlace,
    moment: Option<Moment>,
) -> ApprovalHistory {
    if let Some(moment) = moment {
        entries.retain(|entry| entry.seq.is_some_and(|own| own.get() <= moment.seq.get()));
    }
    let mut history = ApprovalHistory::of(tenant, &entries, place);
    for logged in history.log.iter_mut().filter(|logged| doubted.contains(&logged.id)) {
        logged.problem.get_or_insert_with(|| "was signed over another state of the log".to_owned());
    }
    history
}
