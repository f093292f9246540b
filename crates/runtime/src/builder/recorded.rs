//! What the ledger has of executions: the newest event, the record of an attempt, and whether a recorded decision
//! follows from the ledger as it was then.

use std::sync::Arc;

use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::execution_record::RecordedArtifact;
use crealeph_contracts::json::Node;
use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_decision::builder::conclude::BUILDER;
use crealeph_decision::builder::lookup::record_key;
use crealeph_decision::builder::replay::{self, Check};
use crealeph_decision::builder::review::approved_key;
use crealeph_decision::builder::{Asked, EXECUTION_RECORD, Record, RecordedExecution};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, Snapshot, SnapshotFacts};
use crealeph_ledger::{
    AcceptedRequest, Cursor, EXECUTION_EVENT, EntryPage, Filter, Ledger, LedgerError, Order, Position, Seq,
    StoredEntry,
};

use super::{BuildError, request_name};

/// How many entries of one execution are shown in addition to its events and records.
const MAX_OTHERS: usize = 1_000;
/// How many events or records of one execution are read at a time.
const PAGE_ENTRIES: usize = 100;

/// What the ledger holds, at one moment, of an execution and of its robot.
pub(super) struct Seen {
    pub(super) recorded: RecordedExecution,
    /// The record of the asked attempt.
    pub(super) record: Option<Record>,
    /// What the snapshot is derived from, if requested and the attempt is not recorded.
    pub(super) facts: Option<(SnapshotFacts, Position)>,
    /// Another request of the execution that was accepted and is not decided, if the attempt is not recorded.
    pub(super) open: Option<AcceptedRequest>,
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
    let (name, fingerprint) = (request_name(asked), asked.fingerprint()?);
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
            Some(_) => view.get_by_key(&key)?,
        };
        let record = match record.as_ref().map(read_record).transpose() {
            Ok(record) => record.flatten(),
            Err(unreadable) => return Ok(Err(unreadable)),
        };
        let facts = match coherence {
            Some(rules) if record.is_none() => {
                Some(view.facts_up_to(robot, None, rules, Derivation::default())?)
            }
            _ => None,
        };
        let open = match is_new || record.is_some() {
            true => None,
            false => view.open_request(&name)?,
        };
        let is_other =
            |open: &AcceptedRequest| open.fingerprint != fingerprint || open.attempt != asked.attempt();
        let fingerprint = record.as_ref().map(|record| record.fingerprint);
        let open = open.filter(is_other);
        Ok(Ok(Seen { recorded: RecordedExecution { last, fingerprint }, record, facts, open }))
    })?;
    seen.unwrap_or_else(|| {
        Ok(Seen { recorded: RecordedExecution::default(), record: None, facts: None, open: None })
    })
}

fn state_and_attempt(event: &StoredEntry) -> Option<(ExecutionState, u64)> {
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
    Ok(entry.as_ref().map(read_record).transpose()?.flatten())
}

/// The record that an entry is, if it is one. One that cannot be read is an error: without it neither a repeat nor a
/// conflict can be recognised.
fn read_record(entry: &StoredEntry) -> Result<Option<Record>, BuildError> {
    match is_record(entry) {
        false => Ok(None),
        true => match Record::read(&entry.content.payload) {
            None => Err(BuildError::Unreadable { entry: entry.id.clone() }),
            record => Ok(record),
        },
    }
}

fn is_record(entry: &StoredEntry) -> bool {
    entry.content.kind.as_str() == EXECUTION_RECORD.as_str()
}

/// Everything the ledger holds of an execution, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// Its events.
    pub events: Vec<StoredEntry>,
    /// Its records, one per attempt.
    pub records: Vec<(StoredEntry, Record)>,
    /// Records that cannot be read, as an older program may have left them.
    pub unreadable: Vec<LedgerId>,
    /// What it made, and what people said of it.
    pub others: Vec<StoredEntry>,
    /// It made more than is shown.
    pub is_cut: bool,
}

/// Reads an execution, of one robot if one is named; `None` if there is no trace of it.
pub fn execution(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    execution: &ExecutionId,
) -> Result<Option<Execution>, LedgerError> {
    let limit = ledger.limits().page_entries;
    Execution::gather(robot, execution, |filter, cursor| {
        ledger.list(tenant, filter, Order::OldestFirst, cursor, limit)
    })
}

impl Execution {
    /// Reads an execution from the pages of its entries, oldest first; `None` if there is no trace of it.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub fn gather<E>(
        robot: Option<&RobotId>,
        execution: &ExecutionId,
        mut page: impl FnMut(&Filter, Option<Cursor>) -> Result<EntryPage, E>,
    ) -> Result<Option<Self>, E> {
        let filter =
            Filter { robot_id: robot.cloned(), execution_id: Some(execution.clone()), ..Filter::default() };
        let mut found = Execution::default();
        let mut cursor = None;
        loop {
            let EntryPage { entries, next } = page(&filter, cursor)?;
            for entry in entries {
                match read_record(&entry) {
                    Ok(Some(record)) => found.records.push((entry, record)),
                    Ok(None) if entry.content.is_event() => found.events.push(entry),
                    Ok(None) if found.others.len() < MAX_OTHERS => found.others.push(entry),
                    Ok(None) => found.is_cut = true,
                    Err(_) => found.unreadable.push(entry.id),
                }
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        let is_empty = found.events.is_empty() && found.records.is_empty() && found.others.is_empty();
        Ok((!is_empty).then_some(found))
    }
}

/// The snapshot that a record's decision was based on, derived from the ledger as it was then.
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

/// Derives a recorded decision again from the ledger as it was then, and compares with it everything that the log
/// holds of the attempt: the record and the entry it is in, the event, the artifacts.
pub fn replay(
    ledger: &Ledger,
    tenant: &TenantId,
    entry: &StoredEntry,
    record: &Record,
) -> Result<Vec<Check>, BuildError> {
    let snapshot = snapshot_of(ledger, tenant, record)?;
    let mut checks = replay::replay(tenant, record, snapshot)?;
    let mut add = |what, recorded: String, derived: String| checks.push(Check { what, recorded, derived });
    let (content, request) = (&entry.content, &record.request);
    let own = |id: &Option<ExecutionId>| id.as_ref().map_or("none".to_owned(), ToString::to_string);
    add("record's state", content.state.to_string(), record.answer.state.to_string());
    add("record's robot", content.robot_id.to_string(), request.robot_id.to_string());
    add("record's execution", own(&content.execution_id), record.execution_id.to_string());
    add("record's rerun", own(&content.rerun_of), own(&record.rerun_of));
    let key = record_key(request.robot_id.as_str(), record.execution_id.as_str(), record.attempt)?;
    let found = content.key.as_ref().map_or("none".to_owned(), ToString::to_string);
    add("record's key", found, key.to_string());
    let (recorded, derived) = event(ledger, tenant, record)?;
    add("event", recorded, derived);
    let (recorded, derived) = artifacts(ledger, tenant, record)?;
    add("artifacts", recorded, derived);
    Ok(checks)
}

/// The event of the attempt as the log holds it, and as the record says.
fn event(ledger: &Ledger, tenant: &TenantId, record: &Record) -> Result<(String, String), BuildError> {
    let derived = format!(
        "{} attempt {}, dryRun {}, snapshot of {}, {}",
        record.answer.state,
        record.attempt,
        record.request.dry_run,
        record.snapshot_at,
        record.coherence_status
    );
    let filter = Filter {
        robot_id: Some(record.request.robot_id.clone()),
        kind: Some(Name::parse(EXECUTION_EVENT)?),
        execution_id: Some(record.execution_id.clone()),
        state: Some(Name::parse(record.answer.state.as_str())?),
        ..Filter::default()
    };
    let mut cursor = None;
    loop {
        let page = ledger.list(tenant, &filter, Order::OldestFirst, cursor, PAGE_ENTRIES)?;
        for event in &page.entries {
            let found = event.to_entry().payload.and_then(|payload| payload.with(described));
            let is_of_attempt = state_and_attempt(event).is_some_and(|(_, of)| of == record.attempt);
            if let Some(found) = found.filter(|_| is_of_attempt) {
                return Ok((format!("{} {found}", event.content.state), derived));
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(("none".to_owned(), derived));
        }
    }
}

fn described(payload: Node<'_>) -> Option<String> {
    Some(format!(
        "attempt {}, dryRun {}, snapshot of {}, {}",
        payload.member("attempt")?.number()?,
        payload.member("dryRun")?.boolean()?,
        payload.member("snapshotAt")?.string()?,
        payload.member("coherenceStatus")?.string()?
    ))
}

/// The artifacts that the record names: as the log holds them, and as they must be.
fn artifacts(ledger: &Ledger, tenant: &TenantId, record: &Record) -> Result<(String, String), BuildError> {
    let state = if record.answer.state == ExecutionState::Planned { "planned" } else { "draft" };
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for RecordedArtifact { id, kind, .. } in &record.artifacts {
        let execution = &record.execution_id;
        expected.push(format!("{id} {kind} {state} of {execution} by builder"));
        found.push(match ledger.get(tenant, id)? {
            Some(StoredEntry { content, .. }) => {
                let execution = content.execution_id.as_ref().map_or("none", |id| id.as_str());
                format!("{id} {} {} of {execution} by {}", content.kind, content.state, content.module)
            }
            None => format!("{id} is not in the log"),
        });
    }
    Ok((found.join(", "), expected.join(", ")))
}

/// Whether the Builder wrote this artifact: because the record of its execution names it, or because it is what a
/// person approved of such a draft (R14). Module and lineage alone say nothing: older logs let anyone write them.
pub fn is_made_by_builder(
    ledger: &Ledger,
    tenant: &TenantId,
    entry: &StoredEntry,
) -> Result<bool, BuildError> {
    let mut records = NamingRecords::new(ledger, tenant);
    if records.of(entry)?.is_some() {
        return Ok(true);
    }
    let Some(key) = &entry.content.key else { return Ok(false) };
    for id in &entry.content.depends_on {
        if approved_key(id)? == *key
            && let Some(draft) = ledger.get(tenant, id)?
        {
            return Ok(records.of(&draft)?.is_some());
        }
    }
    Ok(false)
}

/// Finds the record that names an entry of the Builder. The drafts of an attempt follow each other in lists, so the last record is
/// kept for the next one.
pub struct NamingRecords<'l> {
    ledger: &'l Ledger,
    tenant: &'l TenantId,
    last: Option<LoggedRecord>,
}

/// The record of an attempt, and where it is in the log.
struct LoggedRecord {
    seq: Seq,
    robot_id: RobotId,
    execution_id: ExecutionId,
    record: Arc<Record>,
}

impl LoggedRecord {
    /// Whether it names an entry. What is in the log after the record was not written with it.
    fn names(&self, entry: &StoredEntry) -> bool {
        let content = &entry.content;
        content.module.as_str() == BUILDER.as_str()
            && content.robot_id == self.robot_id
            && content.execution_id.as_ref() == Some(&self.execution_id)
            && self.seq > entry.seq
            && self.record.names(&entry.id, content.kind.as_str())
    }
}

impl<'l> NamingRecords<'l> {
    /// Those of a tenant.
    pub fn new(ledger: &'l Ledger, tenant: &'l TenantId) -> Self {
        NamingRecords { ledger, tenant, last: None }
    }

    /// The record that names an entry; `None` if none does, and then the Builder did not write it.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn of(&mut self, entry: &StoredEntry) -> Result<Option<Arc<Record>>, BuildError> {
        if !self.last.as_ref().is_some_and(|last| last.names(entry)) {
            self.last = self.find(entry)?;
        }
        Ok(self.last.as_ref().map(|last| Arc::clone(&last.record)))
    }

    fn find(&self, entry: &StoredEntry) -> Result<Option<LoggedRecord>, BuildError> {
        let content = &entry.content;
        let Some(execution_id) = &content.execution_id else { return Ok(None) };
        if content.module.as_str() != BUILDER.as_str() {
            return Ok(None);
        }
        let filter = Filter {
            robot_id: Some(content.robot_id.clone()),
            kind: Some(Name::from(EXECUTION_RECORD)),
            execution_id: Some(execution_id.clone()),
            ..Filter::default()
        };
        let mut cursor = None;
        loop {
            let page = self.ledger.list(self.tenant, &filter, Order::NewestFirst, cursor, PAGE_ENTRIES)?;
            for found in page.entries {
                let Some(record) = Record::read(&found.content.payload) else { continue };
                let found = LoggedRecord {
                    seq: found.seq,
                    robot_id: content.robot_id.clone(),
                    execution_id: execution_id.clone(),
                    record: Arc::new(record),
                };
                if found.names(entry) {
                    return Ok(Some(found));
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(None);
            }
        }
    }
}
