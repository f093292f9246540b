//! A draft as a subject of approval: exactly what is shown, the evidence it is based on, and whether that is still the newest.

use std::sync::Arc;

use crealeph_contracts::actor::Actor;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};
use crealeph_contracts::staleness::MaxAge;
use crealeph_decision::approval::{ApprovalSubject, DRAFT_TARGET, Requester, SubjectClass, derive};
use crealeph_decision::builder::Record;
use crealeph_decision::builder::review::{check_draft, review_key};
use crealeph_decision::coherence::{CoherenceRules, outdated_by};
use crealeph_decision::snapshot::{EntryPosition, Newest, NewestEntries, SnapshotType};
use crealeph_ledger::{Ledger, LedgerError, StoredEntry};

use super::case::{Moment, SubjectBasis, SubjectCase, entries_about};
use super::error::ApprovalError;
use super::kept_history::HistoryReader;
use crate::builder::{NamingRecords, Scopes, is_made_by_builder};

/// An entry that a draft is based on, the newest of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Its type.
    pub kind: SnapshotType,
    /// Its place in the log.
    pub seq: u64,
    /// When it was true.
    pub at: Instant,
    /// Whether it is fresh by the thresholds that are in force for its robot.
    pub is_fresh: bool,
}

/// Reads a draft and its state, now or at an earlier moment.
pub(super) fn draft_case(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    id: &LedgerId,
    moment: Option<Moment>,
) -> Result<SubjectCase, ApprovalError> {
    let entry = ledger.get(tenant, id)?.ok_or_else(|| ApprovalError::NoEntry(id.clone()))?;
    check_draft(&entry.to_entry())?;
    let record = NamingRecords::new(ledger, tenant).of(&entry)?.map(Arc::unwrap_or_clone);
    if record.is_none() && !is_made_by_builder(ledger, tenant, &entry)? {
        return Err(ApprovalError::NotTheBuilders(id.clone()));
    }
    if let Some(review) = ledger.get_by_key(tenant, &review_key(id)?)? {
        return Err(ApprovalError::Reviewed { draft: id.clone(), review: review.id });
    }
    let scope = scopes.of(tenant, &entry.content.robot_id);
    let rules = &scope.coherence;
    let reader = HistoryReader::new(ledger, tenant);
    let read = ledger.view(tenant, |view| {
        let newest = view.entry_with_reach(id)?.ok_or(LedgerError::Closed)?;
        let up_to = moment.map(|moment| moment.seq);
        let known = view.newest(&entry.content.robot_id, up_to, rules)?;
        let history = reader.read(view)?;
        let log = entries_about(view, &history, id, moment)?;
        Ok((history, log, newest, known))
    })?;
    let (history, log, newest, known) = read.ok_or_else(|| ApprovalError::NoEntry(id.clone()))?;
    let subject = subject_of(&entry, record.as_ref(), &newest, &known, rules);
    let now = moment.map_or(history.place.now.instant(), |moment| moment.at);
    let state = derive(&log, &subject, now)?;
    let max_age = MaxAge::from_minutes(scope.rules.thresholds().max_staleness_minutes);
    let evidence = evidence_of(&newest, |at| max_age.is_fresh(at, now));
    let basis = SubjectBasis::Draft { record: record.map(Box::new), evidence };
    Ok(SubjectCase { entry, subject, basis, history, log, state })
}

/// A draft as a subject, by what is known of its robot.
pub(super) fn subject_of(
    entry: &StoredEntry,
    record: Option<&Record>,
    newest: &Newest,
    known: &NewestEntries,
    rules: &CoherenceRules,
) -> ApprovalSubject {
    ApprovalSubject {
        id: entry.id.clone(),
        class: SubjectClass::draft(record.and_then(objective_of)),
        digest: Blake3::of(entry.canonical().as_bytes()),
        target: Name::from(DRAFT_TARGET),
        base_state: None,
        requester: draft_requester(entry),
        outdated: outdated_by(newest, known, rules),
        moved_files: Vec::new(),
    }
}

/// Who asked for a draft: the one that its run was appended for. A name of an unknown form proves nothing.
pub fn draft_requester(draft: &StoredEntry) -> Option<Requester> {
    let actor = draft.actor.as_ref()?;
    Some(Actor::of_name(actor).map_or_else(|| Requester::OsName(actor.clone()), Requester::of_actor))
}

/// The objective that a record's request asked for.
pub(super) fn objective_of(record: &Record) -> Option<Name> {
    Name::parse(record.request.objective_type.as_str()).ok()
}

fn evidence_of(newest: &Newest, is_fresh: impl Fn(Instant) -> bool) -> Vec<Evidence> {
    let reached =
        SnapshotType::ALL.into_iter().filter_map(|kind| Some((kind, (*newest.reach.newest.get(kind))?)));
    let used =
        reached.map(|(kind, EntryPosition { seq, at })| Evidence { kind, seq, at, is_fresh: is_fresh(at) });
    used.collect()
}
