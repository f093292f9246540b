//! What the ledger holds of executions: the newest event, the record of an attempt, and whether a recorded decision
//! follows from what the ledger held then.

use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::scalar::{ExecutionId, Name, RobotId, TenantId};
use crealeph_decision::builder::lookup::record_key;
use crealeph_decision::builder::replay::{self, Check};
use crealeph_decision::builder::{Asked, EXECUTION_RECORD, Record, Recorded};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, Facts, Snapshot};
use crealeph_ledger::{EXECUTION_EVENT, Filter, Ledger, LedgerError, Order, Position, Seq, Stored};

use super::BuildError;

/// How many entries of one execution are shown beside its events and records.
const MAX_OTHERS: usize = 1_000;

/// What the ledger holds, at one moment, of an execution and of its robot.
pub(super) struct Seen {
    pub(super) recorded: Recorded,
    /// The record of the asked attempt.
    pub(super) record: Option<Record>,
    /// What the snapshot is derived from, where that was asked for and the attempt is not recorded.
    pub(super) facts: Option<(Facts, Position)>,
}

/// Looks an execution up, unless it is new, and with coherence rules what is known of its robot.
pub(super) fn seen(
    ledger: &Ledger,
    asked: &Asked,
    is_new: bool,
    coherence: Option<&CoherenceRules>,
) -> Result<Seen, BuildError> {
    let robot = &asked.request.robot_id;
    let (key, kind) = (asked.record_key()?, Name::parse(EXECUTION_EVENT)?);
    let filter = Filter {
        robot_id: Some(robot.clone()),
        kind: Some(kind),
        execution_id: Some(asked.execution_id.clone()),
        ..Filter::default()
    };
    let seen = ledger.view(&asked.tenant_id, |view| {
        let event = match is_new {
            true => None,
            false => view.list(&filter, Order::NewestFirst, None, 1)?.entries.pop(),
        };
        let last = event.as_ref().and_then(state_and_attempt);
        // A record is written together with an event.
        let record = match event {
            None => None,
            Some(_) => view.get_by_key(&key)?.as_ref().and_then(read_record),
        };
        let facts = match coherence {
            Some(rules) if record.is_none() => {
                Some(view.facts_up_to(robot, None, rules, Derivation::default())?)
            }
            _ => None,
        };
        let fingerprint = record.as_ref().map(|record| record.fingerprint);
        Ok(Seen { recorded: Recorded { last, fingerprint }, record, facts })
    })?;
    Ok(seen.unwrap_or(Seen { recorded: Recorded::default(), record: None, facts: None }))
}

fn state_and_attempt(event: &Stored) -> Option<(ExecutionState, u64)> {
    let state = ExecutionState::parse(event.content.state.as_str())?;
    let payload = event.to_entry().payload?;
    let attempt = payload.with(|payload| payload.member("attempt")?.number())?;
    Some((state, attempt as u64))
}

/// The record of an attempt, if the Builder wrote one.
pub fn record_of(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: &RobotId,
    execution: &ExecutionId,
    attempt: u64,
) -> Result<Option<Record>, BuildError> {
    let key = record_key(robot.as_str(), execution.as_str(), attempt)?;
    let entry = ledger.get_by_key(tenant, &key)?;
    Ok(entry.as_ref().and_then(read_record))
}

fn read_record(entry: &Stored) -> Option<Record> {
    if is_record(entry) { Record::read(&entry.content.payload) } else { None }
}

fn is_record(entry: &Stored) -> bool {
    entry.content.kind.as_str() == EXECUTION_RECORD.as_str()
}

/// Everything the ledger holds of an execution, oldest first.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its events.
    pub events: Vec<Stored>,
    /// Its records, one per attempt.
    pub records: Vec<(Stored, Record)>,
    /// What it made, and what people said of it.
    pub others: Vec<Stored>,
    /// It made more than is shown.
    pub is_cut: bool,
}

/// Reads an execution, of one robot where that is said; `None` where there is no trace of it.
pub fn execution(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    execution: &ExecutionId,
) -> Result<Option<Execution>, LedgerError> {
    let filter =
        Filter { robot_id: robot.cloned(), execution_id: Some(execution.clone()), ..Filter::default() };
    let mut found = Execution { events: Vec::new(), records: Vec::new(), others: Vec::new(), is_cut: false };
    let mut cursor = None;
    loop {
        let page = ledger.list(tenant, &filter, Order::OldestFirst, cursor, ledger.limits().page_entries)?;
        for entry in page.entries {
            match read_record(&entry) {
                Some(record) => found.records.push((entry, record)),
                None if entry.content.is_event() => found.events.push(entry),
                None if found.others.len() < MAX_OTHERS => found.others.push(entry),
                None => found.is_cut = true,
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let is_empty = found.events.is_empty() && found.records.is_empty() && found.others.is_empty();
    Ok((!is_empty).then_some(found))
}

/// The snapshot that a record's decision rested on, derived from the ledger as it stood then.
pub fn snapshot_of(
    ledger: &Ledger,
    tenant: &TenantId,
    record: &Record,
) -> Result<Option<Snapshot>, LedgerError> {
    let up_to = Seq::new(record.seq).unwrap_or(Seq::MAX);
    let robot = &record.request.robot_id;
    let facts = ledger.facts_up_to(tenant, robot, Some(up_to), &record.coherence, record.derivation)?;
    Ok(facts.and_then(|(facts, _)| Snapshot::derive(facts, &record.coherence)))
}

/// Derives a recorded decision again from the ledger as it stood then.
pub fn replay(ledger: &Ledger, tenant: &TenantId, record: &Record) -> Result<Vec<Check>, BuildError> {
    let snapshot = snapshot_of(ledger, tenant, record)?;
    Ok(replay::replay(tenant, record, snapshot)?)
}
