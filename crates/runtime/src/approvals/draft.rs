//! A draft as a subject of approval: exactly what is shown, what it rests on, and whether that is still the newest.

use std::collections::BTreeSet;

use crealeph_contracts::approval::ApprovalEntry;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{LedgerId, Literal, Name, TenantId};
use crealeph_decision::approval::{ApprovalSubject, SubjectClass, SubjectState, derive};
use crealeph_decision::builder::Record;
use crealeph_decision::builder::review::{check_draft, review_key};
use crealeph_decision::coherence::{CoherenceRules, outdated_by};
use crealeph_decision::snapshot::{Derivation, Newest, SnapshotFacts, SnapshotType};
use crealeph_ledger::{Ledger, LedgerError, LogView, Seq, StoredEntry};

use super::error::ApprovalError;
use super::history::{ApprovalHistory, approval_entries};
use crate::builder::{Scopes, execution, is_made_by_builder};

/// Where a draft lands.
const LEDGER: Literal = Literal::new("ledger");

/// A draft, the log it was read in, and how it stands.
#[derive(Clone, Debug)]
pub struct DraftSubject {
    /// The draft.
    pub entry: StoredEntry,
    /// As a subject.
    pub subject: ApprovalSubject,
    /// The record of the attempt that made it, if one names it.
    pub record: Option<Record>,
    /// The newest evidence that it rests on.
    pub evidence: Vec<Evidence>,
    /// What the log says of approvals.
    pub history: ApprovalHistory,
    /// How it stands.
    pub state: SubjectState,
}

/// An entry that a draft rests on, the newest of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Its type.
    pub kind: SnapshotType,
    /// Its place in the log.
    pub seq: u64,
    /// When it was true.
    pub at: Instant,
}

/// Reads a draft and how it stands.
///
/// # Errors
/// When there is no such draft, it was decided before anybody was enrolled, or the ledger cannot be read.
pub fn draft_subject(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    id: &LedgerId,
) -> Result<DraftSubject, ApprovalError> {
    read_subject(ledger, tenant, scopes, id, None)
}

/// The same, as it stood at an earlier place of the log and time: what a landing rested on.
///
/// # Errors
/// The same.
pub fn draft_subject_at(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    id: &LedgerId,
    moment: (Seq, Instant),
) -> Result<DraftSubject, ApprovalError> {
    read_subject(ledger, tenant, scopes, id, Some(moment))
}

fn read_subject(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    id: &LedgerId,
    moment: Option<(Seq, Instant)>,
) -> Result<DraftSubject, ApprovalError> {
    let entry = ledger.get(tenant, id)?.ok_or_else(|| ApprovalError::NoEntry(id.clone()))?;
    check_draft(&entry.to_entry())?;
    if !is_made_by_builder(ledger, tenant, &entry)? {
        return Err(ApprovalError::NotTheBuilders(id.clone()));
    }
    if let Some(review) = ledger.get_by_key(tenant, &review_key(id)?)? {
        return Err(ApprovalError::Reviewed { draft: id.clone(), review: review.id });
    }
    let record = record_of_draft(ledger, tenant, &entry)?;
    let rules = &scopes.of(tenant, &entry.content.robot_id).coherence;
    let read = ledger.view(tenant, |view| {
        let newest = view.entry_with_reach(id)?.ok_or(LedgerError::Closed)?;
        let up_to = moment.map(|(seq, _)| seq);
        let (facts, _) = view.facts_up_to(&entry.content.robot_id, up_to, rules, Derivation::default())?;
        let entries = approval_entries(view)?;
        let doubted = doubted(view, &entries, id)?;
        Ok((entries, doubted, view.place(), newest, facts))
    })?;
    let (mut entries, doubted, place, newest, facts) =
        read.ok_or_else(|| ApprovalError::NoEntry(id.clone()))?;
    if let Some((seq, _)) = moment {
        entries.retain(|entry| entry.seq.is_some_and(|own| own.get() <= seq.get()));
    }
    let mut history = ApprovalHistory::of(tenant, &entries, place);
    for logged in history.log.iter_mut().filter(|logged| doubted.contains(&logged.id)) {
        logged.problem.get_or_insert_with(|| "was signed over another state of the log".to_owned());
    }
    let subject = subject_of(&entry, record.as_ref(), &newest, &facts, rules);
    let now = moment.map_or(history.place.now.instant(), |(_, at)| at);
    let state = derive(&history.log, &subject, now)?;
    Ok(DraftSubject { evidence: evidence_of(&newest), entry, subject, record, history, state })
}

/// The verdicts on a subject that name another root than the log had at their place.
fn doubted(
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

/// A draft as a subject, by what is known of its robot.
pub(super) fn subject_of(
    entry: &StoredEntry,
    record: Option<&Record>,
    newest: &Newest,
    facts: &SnapshotFacts,
    rules: &CoherenceRules,
) -> ApprovalSubject {
    ApprovalSubject {
        id: entry.id.clone(),
        class: SubjectClass::draft(record.and_then(objective_of)),
        digest: Blake3::of(entry.canonical().as_bytes()),
        target: Name::from(LEDGER),
        requester: None,
        outdated: outdated_by(newest, facts, rules),
        moved_files: Vec::new(),
    }
}

/// The objective that a record's request asked for.
pub(super) fn objective_of(record: &Record) -> Option<Name> {
    Name::parse(record.request.objective_type.as_str()).ok()
}

fn evidence_of(newest: &Newest) -> Vec<Evidence> {
    let reached =
        SnapshotType::ALL.into_iter().filter_map(|kind| Some((kind, (*newest.reach.newest.get(kind))?)));
    reached.map(|(kind, place)| Evidence { kind, seq: place.seq, at: place.at }).collect()
}

/// The record of the attempt that made a draft.
pub(super) fn record_of_draft(
    ledger: &Ledger,
    tenant: &TenantId,
    draft: &StoredEntry,
) -> Result<Option<Record>, ApprovalError> {
    let Some(id) = &draft.content.execution_id else { return Ok(None) };
    let Some(found) = execution(ledger, tenant, Some(&draft.content.robot_id), id)? else { return Ok(None) };
    let records = found.records.into_iter().map(|(_, record)| record);
    let mut named = records.filter(|record| record.names(&draft.id, draft.content.kind.as_str()));
    Ok(named.next())
}
