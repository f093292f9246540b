//! A held change as a subject of approval: read from the ledger alone, so that people can decide about it anywhere; and the entries
//! of its landing, which only the process that holds the workspace's lock writes.

use crealeph_contracts::approval::{
    ApprovalEntry, LANDING, LANDING_OUTCOME, LandingEnd, LandingOutcomeRecord, LandingRecord, SubjectKind,
    TENANT_ROBOT, landing_key, landing_outcome_key,
};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::{Draft, Lineage};
use crealeph_contracts::held_change::{HELD, HELD_CHANGE, HeldChangeRecord, held_change_key};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::provenance::LocalUser;
use crealeph_contracts::scalar::{ClientKey, LedgerId, Literal, Name, RobotId, TenantId};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::approval::{ApprovalSubject, People, Requester, SubjectClass, SubjectOutcome, derive};
use crealeph_ledger::{AppendedEntry, Ledger, LedgerError, StoredEntry};

use super::case::{Moment, SubjectBasis, SubjectCase, entries_about};
use super::error::ApprovalError;
use super::history::{ApprovalHistory, append_at_end, approvals_draft, count, first, is_unsigned_refused};
use super::kept_history::HistoryReader;

/// The module of entries about work.
pub(crate) const WORK: Literal = Literal::new("work");

/// The entry that puts a held change before people; it is based on the entries that its item came from.
pub(crate) fn held_change_draft(
    record: &HeldChangeRecord,
    because: Vec<LedgerId>,
) -> Result<Draft, ApprovalError> {
    let lineage = (!because.is_empty()).then(|| Lineage {
        depends_on: Set::new(because),
        execution_id: None,
        rerun_of: None,
    });
    Ok(Draft {
        robot_id: RobotId::from(TENANT_ROBOT),
        module: Name::from(WORK),
        source: Name::from(WORK),
        kind: Name::from(HELD_CHANGE),
        state: Name::from(HELD),
        payload: JsonObject::of("the held change", record)?,
        lineage,
        observed_at: None,
        key: Some(ClientKey::parse(&held_change_key(&record.run.to_string()))?),
    })
}

/// The held change of a run, if the ledger has it.
pub(crate) fn held_change(
    ledger: &Ledger,
    tenant: &TenantId,
    run: &LedgerId,
) -> Result<Option<(StoredEntry, HeldChangeRecord)>, ApprovalError> {
    let Ok(key) = ClientKey::parse(&held_change_key(run.as_str())) else { return Ok(None) };
    let Some(entry) = ledger.get_by_key(tenant, &key)? else { return Ok(None) };
    let record = change_of(&entry).filter(|record| record.run.to_string() == run.as_str());
    match record {
        Some(record) => Ok(Some((entry, record))),
        None => Err(ApprovalError::NotAChange(entry.id)),
    }
}

/// The held change of a run and its state.
pub(crate) fn read_change(
    ledger: &Ledger,
    tenant: &TenantId,
    run: &LedgerId,
) -> Result<SubjectCase, ApprovalError> {
    let (entry, record) =
        held_change(ledger, tenant, run)?.ok_or_else(|| ApprovalError::NoEntry(run.clone()))?;
    change_case(ledger, tenant, entry, record, None)
}

/// Those of these held runs that people decided about; none while no one was enrolled.
pub(crate) fn decided_changes(
    ledger: &Ledger,
    tenant: &TenantId,
    runs: &[Uuid],
) -> Result<Vec<Uuid>, ApprovalError> {
    if !is_unsigned_refused(ledger, tenant)? {
        return Ok(Vec::new());
    }
    let Some(history) = ApprovalHistory::load(ledger, tenant)? else { return Ok(Vec::new()) };
    let people = history.entries.people(u64::MAX);
    let mut decided = Vec::new();
    for run in runs {
        let Some((_, record)) = held_change(ledger, tenant, &LedgerId::parse(&run.to_string())?)? else {
            continue;
        };
        let subject = change_subject(&record, &people)?;
        let log = history.entries.about(&subject.id, u64::MAX);
        let state = derive(&log, &subject, history.place.now.instant())?;
        if !matches!(state.outcome, SubjectOutcome::Waiting { .. }) {
            decided.push(*run);
        }
    }
    Ok(decided)
}

/// What an entry says of a held change; `None` if it is another entry.
pub fn change_of(entry: &StoredEntry) -> Option<HeldChangeRecord> {
    let content = &entry.content;
    let is_works = content.module.as_str() == WORK.as_str() && content.kind.as_str() == HELD_CHANGE.as_str();
    entry.to_entry().payload.as_ref().filter(|_| is_works).and_then(HeldChangeRecord::of_payload)
}

/// The state of a held change, now or at an earlier moment.
pub(super) fn change_case(
    ledger: &Ledger,
    tenant: &TenantId,
    entry: StoredEntry,
    record: HeldChangeRecord,
    moment: Option<Moment>,
) -> Result<SubjectCase, ApprovalError> {
    let run = LedgerId::parse(&record.run.to_string())?;
    let reader = HistoryReader::new(ledger, tenant);
    let read = ledger.view(tenant, |view| {
        let history = reader.read(view)?;
        let log = entries_about(view, &history, &run, moment)?;
        Ok((history, log))
    })?;
    let (history, log) = read.ok_or_else(|| ApprovalError::NoEntry(run.clone()))?;
    let subject = change_subject(&record, &People::of(&log))?;
    let now = moment.map_or(history.place.now.instant(), |moment| moment.at);
    let state = derive(&log, &subject, now)?;
    Ok(SubjectCase { entry, subject, basis: SubjectBasis::Change(Box::new(record)), history, log, state })
}

/// A held change as a subject. Which of its files have moved is known where its workspace is, and checked there before it lands.
pub(super) fn change_subject(
    record: &HeldChangeRecord,
    people: &People,
) -> Result<ApprovalSubject, ApprovalError> {
    Ok(ApprovalSubject {
        id: LedgerId::parse(&record.run.to_string())?,
        class: SubjectClass::change(record),
        digest: record.digest()?,
        target: record.target.clone(),
        base_state: Some(record.base_state),
        requester: record.requester.as_ref().map(|asked| requester(asked, people)).transpose()?,
        outdated: None,
        moved_files: Vec::new(),
    })
}

/// Someone whose key is enrolled has proved who they are; an account of an operating system has not.
fn requester(asked: &LocalUser, people: &People) -> Result<Requester, ApprovalError> {
    let person = asked.key.as_ref().and_then(|key| people.person_of(key));
    Ok(match person {
        Some(person) => Requester::Person(person.clone()),
        None => Requester::OsName(Name::parse(&format!("{}@{}", asked.user, asked.host))?),
    })
}

/// A landing that is about to be written: what it uses, as it was checked before the change was tested.
#[derive(Clone, Debug)]
pub(crate) struct ChangeLanding {
    pub(crate) run: LedgerId,
    pub(crate) digest: Blake3,
    /// Which landing of this change.
    pub(crate) number: u64,
    pub(crate) verdicts: Vec<LedgerId>,
}

impl ChangeLanding {
    /// Writes the landing if quorum still holds; both are one step.
    pub(crate) fn append(&self, ledger: &Ledger, tenant: &TenantId) -> Result<AppendedEntry, ApprovalError> {
        let written = append_at_end(ledger, tenant, || {
            let case = read_change(ledger, tenant, &self.run)?;
            let counted = match &case.state.outcome {
                SubjectOutcome::Approved { verdicts } => verdicts.as_slice(),
                _ => &[],
            };
            let is_same = case.subject.digest == self.digest
                && case.history.judge.landings_of(&self.run) + 1 == self.number;
            if !is_same || !self.verdicts.iter().all(|verdict| counted.contains(verdict)) {
                return Err(ApprovalError::NoLongerApproved(self.run.clone()));
            }
            let draft = self.draft(&case)?;
            Ok(Some((case.history.place.clone(), vec![(None, draft)])))
        })?;
        first(written)
    }

    fn draft(&self, case: &SubjectCase) -> Result<Draft, ApprovalError> {
        let ChangeLanding { run, digest, number, verdicts } = self;
        let record = LandingRecord {
            subject_kind: SubjectKind::Change,
            subject_id: run.clone(),
            subject_digest: *digest,
            number: count(*number)?,
            verdicts: Set::new(verdicts.clone()).ok_or(ApprovalError::NoPeople)?,
            rule_digest: case.state.rule_digest,
            checked_seq: count(case.history.place.seq.get())?,
        };
        let key = landing_key(run, *number);
        case.history.check(&ApprovalEntry::Landing(record.clone()), None, &key)?;
        let because = [case.entry.id.clone()].into_iter().chain(verdicts.iter().cloned()).collect();
        let payload = JsonObject::of("the landing", &record)?;
        approvals_draft(LANDING, Literal::new("landing"), payload, resting(because), &key)
    }
}

/// Writes the outcome of a landing, once. There is nothing to write if the landing itself was never written.
pub(crate) fn append_outcome(
    ledger: &Ledger,
    tenant: &TenantId,
    run: &LedgerId,
    number: u64,
    outcome: LandingEnd,
) -> Result<(), ApprovalError> {
    let (landing, own) = (landing_key(run, number), landing_outcome_key(run, number));
    append_at_end(ledger, tenant, || {
        let history = ApprovalHistory::load(ledger, tenant)?.ok_or(LedgerError::Closed)?;
        let Some(entry) = ledger.get_by_key(tenant, &ClientKey::parse(&landing)?)? else { return Ok(None) };
        if ledger.get_by_key(tenant, &ClientKey::parse(&own)?)?.is_some() {
            return Ok(None);
        }
        let record = LandingOutcomeRecord {
            subject_id: run.clone(),
            number: count(number)?,
            landing: entry.id.clone(),
            outcome,
        };
        history.check(&ApprovalEntry::Outcome(record.clone()), None, &own)?;
        let state = match outcome {
            LandingEnd::Completed => Literal::new("completed"),
            LandingEnd::Void => Literal::new("void"),
        };
        let payload = JsonObject::of("the landing's outcome", &record)?;
        let draft = approvals_draft(LANDING_OUTCOME, state, payload, resting(vec![entry.id]), &own)?;
        Ok(Some((history.place, vec![(None, draft)])))
    })?;
    Ok(())
}

fn resting(ids: Vec<LedgerId>) -> Option<Lineage> {
    Some(Lineage { depends_on: Set::new(ids), execution_id: None, rerun_of: None })
}
