//! What a group of batches becomes: pure, from what the log holds to what is written and what each caller is told.
//!
//! Each batch is judged whole; one that is refused leaves no trace, and the next sees what the ones before it
//! will have written. Repeats (R10) write nothing and get the first entry back.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::Valid;
use crealeph_contracts::execution_event::{EntryRef, ExecutionEvent, ExecutionState, rests_on_ledger};
use crealeph_contracts::json::{self, ObjectWriter};
use crealeph_contracts::scalar::{LedgerId, TenantId};
use crealeph_contracts::violation::{Code, Report};
use crealeph_decision::execution::{self, EventFingerprint, Verdict};

use crate::difference::differences;
use crate::entry::{Content, KEY_PREFIX, Stored};
use crate::error::{AppendError, Identity, LedgerError, Refusal};
use crate::identity::IdSource;
use crate::position::{Millis, Seq};
use crate::reach::Reach;
use crate::store::{EventIdentity, Head, Known, Needs, Row, Step};

/// What became of one entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its id; of the first entry, where this is a repeat.
    pub id: LedgerId,
    /// Its place in the tenant's log.
    pub seq: Seq,
    /// When the ledger took it.
    pub created_at: Millis,
    /// It was there already, and nothing was written.
    pub is_repeat: bool,
}

/// An entry made ready on its producer's thread.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub content: Content,
    /// Its identity, where it is an execution event that has one.
    pub event: Option<EventIdentity>,
    /// The id its producer made for it, where it needs to know it beforehand.
    pub proposed: Option<LedgerId>,
}

impl Prepared {
    pub(crate) fn of(content: Content) -> Prepared {
        let event = if content.is_event() { event_identity(&content) } else { None };
        Prepared { content, event, proposed: None }
    }
}

fn event_identity(content: &Content) -> Option<EventIdentity> {
    let limits = json::Limits { max_bytes: usize::MAX };
    let (document, _) = json::parse(content.payload.as_bytes(), &limits);
    let document = document?;
    let execution = document.root().member("executionId")?.string()?.into_owned();
    let attempt = document.root().member("attempt")?.number()?;
    let is_attempt = attempt >= 1.0 && attempt.fract() == 0.0 && attempt < 9_007_199_254_740_992.0;
    is_attempt.then(|| EventIdentity {
        execution,
        robot: content.robot_id.as_str().to_owned(),
        attempt: attempt as u64,
        state: content.state.as_str().to_owned(),
    })
}

/// What has to be known before the batches can be judged.
pub(crate) fn needs<'a>(entries: impl Iterator<Item = &'a Prepared>) -> Needs {
    let mut needs = Needs::default();
    for Prepared { content, event, proposed } in entries {
        if let Some(id) = proposed {
            needs.ids.insert(id.as_str().to_owned());
        }
        for id in &content.depends_on {
            match id.as_str().strip_prefix(KEY_PREFIX) {
                Some(key) => needs.key_steps.insert(key.to_owned()),
                None => needs.ids.insert(id.as_str().to_owned()),
            };
        }
        if let Some(key) = &content.key {
            needs.keys.insert(key.as_str().to_owned());
        }
        if let Some(event) = event {
            needs.executions.insert((event.execution.clone(), event.robot.clone()));
            needs.events.insert(event.clone());
        }
    }
    needs
}

/// What a group of batches comes to.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What each batch's caller is told.
    pub outcomes: Vec<Result<Vec<Appended>, AppendError>>,
    /// The entries to write, in order.
    pub rows: Vec<Row>,
    /// What they depend on, as (depended on, dependent).
    pub edges: Vec<(Seq, Seq)>,
    /// Where the log stands after it.
    pub head: Head,
}

/// Judges the batches one after the other.
pub(crate) fn plan(
    head: &Head,
    known: Known,
    batches: &[&[Prepared]],
    now: Millis,
    ids: &mut IdSource,
) -> Result<Plan, LedgerError> {
    let mut plan = Plan { outcomes: Vec::new(), rows: Vec::new(), edges: Vec::new(), head: head.clone() };
    plan.head.last_at = now.max(head.last_at);
    let mut view = View { tenant_id: &head.tenant_id, known, staged: Known::default() };
    for batch in batches {
        let outcome = plan.judge_batch(&mut view, batch, ids)?;
        plan.outcomes.push(outcome);
    }
    if plan.rows.is_empty() {
        plan.head.last_at = head.last_at;
    }
    Ok(plan)
}

/// An entry of an export, with the envelope it had.
#[derive(Clone, Debug)]
pub(crate) struct Transferred {
    pub prepared: Prepared,
    pub id: LedgerId,
    pub seq: Seq,
    pub created_at: Millis,
}

/// Judges entries that another ledger took: each must follow the last, and be one that this ledger would have taken
/// then. An error names the entry by its position.
pub(crate) fn plan_transfer(
    head: &Head,
    known: Known,
    entries: &[Transferred],
) -> Result<Plan, (usize, String)> {
    let mut plan = Plan { outcomes: Vec::new(), rows: Vec::new(), edges: Vec::new(), head: head.clone() };
    let mut view = View { tenant_id: &head.tenant_id, known, staged: Known::default() };
    for (position, entry) in entries.iter().enumerate() {
        let refused = |reason: String| (position, reason);
        let expected = plan.head.last_seq().next();
        if entry.seq != expected {
            return Err(refused(format!("entry {} stands where entry {expected} must", entry.seq)));
        }
        if entry.created_at < plan.head.last_at {
            return Err(refused(format!("entry {} is older than the one before it", entry.seq)));
        }
        match view.judge(&entry.prepared, entry.seq, entry.created_at) {
            Ok(Judged::New { content, execution, attempt, steps }) => {
                let id = entry.id.clone();
                let row = new_row(
                    view.tenant_id,
                    id,
                    entry.seq,
                    entry.created_at,
                    *content,
                    &steps,
                    execution,
                    attempt,
                );
                plan.edges.extend(steps.iter().map(|step| (step.seq, entry.seq)));
                view.stage(&row, entry.prepared.event.as_ref());
                plan.head.frontier.push(row.leaf);
                plan.head.last_at = entry.created_at;
                plan.rows.push(row);
            }
            Ok(Judged::Repeat(first)) => {
                return Err(refused(format!("entry {} repeats entry {}", entry.seq, first.seq)));
            }
            Err(refusal) => return Err(refused(refusal.to_string())),
        }
    }
    Ok(plan)
}

impl Plan {
    fn judge_batch(
        &mut self,
        view: &mut View<'_>,
        batch: &[Prepared],
        ids: &mut IdSource,
    ) -> Result<Result<Vec<Appended>, AppendError>, LedgerError> {
        let (rows, edges) = (self.rows.len(), self.edges.len());
        let base = self.head.last_seq().get();
        let mut answers = Vec::with_capacity(batch.len());
        for (position, entry) in batch.iter().enumerate() {
            let written = (self.rows.len() - rows) as u64;
            let Some(seq) = Seq::new(base + written + 1) else {
                return Err(LedgerError::Beyond {
                    what: "the number of entries in the log",
                    found: usize::MAX,
                    limit: Seq::MAX.get() as usize,
                });
            };
            match view.judge(entry, seq, self.head.last_at) {
                Ok(Judged::Repeat(answer)) => answers.push(answer),
                Ok(Judged::New { content, execution, attempt, steps }) => {
                    let id = match &entry.proposed {
                        Some(id) => id.clone(),
                        None => ids.next(self.head.last_at, seq)?,
                    };
                    let row = new_row(
                        view.tenant_id,
                        id,
                        seq,
                        self.head.last_at,
                        *content,
                        &steps,
                        execution,
                        attempt,
                    );
                    let Stored { id, created_at, .. } = &row.stored;
                    answers.push(Appended { id: id.clone(), seq, created_at: *created_at, is_repeat: false });
                    self.edges.extend(steps.iter().map(|step| (step.seq, seq)));
                    view.stage(&row, entry.event.as_ref());
                    self.rows.push(row);
                }
                Err(refusal) => {
                    self.rows.truncate(rows);
                    self.edges.truncate(edges);
                    view.staged = Known::default();
                    return Ok(Err(AppendError::Refused { position, refusal }));
                }
            }
        }
        for row in self.rows.iter().skip(rows) {
            self.head.frontier.push(row.leaf);
        }
        view.keep();
        Ok(Ok(answers))
    }
}

#[expect(clippy::too_many_arguments, reason = "each is one part of the row, named by its type")]
fn new_row(
    tenant_id: &TenantId,
    id: LedgerId,
    seq: Seq,
    created_at: Millis,
    content: Content,
    steps: &[Step],
    execution: Option<String>,
    attempt: Option<u64>,
) -> Row {
    let mut reach = Reach::default();
    for step in steps.iter().filter(|step| step.robot_id == content.robot_id) {
        reach.extend(&step.kind, step.seq, &step.reach);
    }
    let stored = Stored { id, seq, tenant_id: tenant_id.clone(), created_at, content };
    let leaf = stored.leaf_hash();
    Row { stored, reach, leaf, execution, attempt }
}

enum Judged {
    Repeat(Appended),
    New { content: Box<Content>, execution: Option<String>, attempt: Option<u64>, steps: Vec<Step> },
}

/// The log as the next entry sees it: what was read, what earlier batches add, and the batch at hand.
struct View<'a> {
    tenant_id: &'a TenantId,
    known: Known,
    staged: Known,
}

impl View<'_> {
    fn judge(&self, entry: &Prepared, seq: Seq, at: Millis) -> Result<Judged, Refusal> {
        if let Some(id) = &entry.proposed
            && (self.staged.steps.contains_key(id.as_str()) || self.known.steps.contains_key(id.as_str()))
        {
            return Err(Refusal::IdTaken(id.clone()));
        }
        let mut content = entry.content.clone();
        let (steps, unknown) = self.resolve(&mut content);
        if content.is_event() {
            let event = self.valid_event(&content, &steps, at)?;
            if let Some(repeat) = self.repeated_event(entry, &content, &event)? {
                return Ok(Judged::Repeat(repeat));
            }
            self.unused_key(&content)?;
            let attempt = Some(event.payload.attempt.get());
            let execution = Some(event.payload.execution_id.as_str().to_owned());
            return Ok(Judged::New { content: Box::new(content), execution, attempt, steps });
        }
        if !unknown.is_empty() {
            return Err(Refusal::UnknownLineage(unknown));
        }
        if let Some(key) = &content.key
            && let Some(recorded) = self.by_key(key.as_str())
        {
            let differs = differences(&recorded.stored.content, &content);
            return if differs.is_empty() {
                Ok(Judged::Repeat(repeat_of(recorded)))
            } else {
                Err(conflict(recorded, Identity::Key, differs))
            };
        }
        observed_in_time(&content, at)?;
        debug_assert!(steps.iter().all(|step| step.seq < seq), "an entry can only rest on older ones");
        let execution = content.execution_id.as_ref().map(|id| id.as_str().to_owned());
        Ok(Judged::New { content: Box::new(content), execution, attempt: None, steps })
    }

    /// Replaces `key:` references by ids; what the log does not hold is returned and left as it is.
    fn resolve(&self, content: &mut Content) -> (Vec<Step>, Vec<String>) {
        let mut ids = BTreeSet::new();
        let mut steps = BTreeMap::new();
        let mut unknown = Vec::new();
        for reference in &content.depends_on {
            let step = match reference.as_str().strip_prefix(KEY_PREFIX) {
                Some(key) => self.staged.key_steps.get(key).or_else(|| self.known.key_steps.get(key)),
                None => {
                    let id = reference.as_str();
                    self.staged.steps.get(id).or_else(|| self.known.steps.get(id))
                }
            };
            match step {
                Some(step) => {
                    ids.insert(step.id.clone());
                    steps.insert(step.seq, step.clone());
                }
                None => {
                    ids.insert(reference.clone());
                    unknown.push(reference.as_str().to_owned());
                }
            }
        }
        content.resolve(ids);
        (steps.into_values().collect(), unknown)
    }

    /// The event judged by its contract and against the ledger (§6, §7, R19).
    fn valid_event(
        &self,
        content: &Content,
        steps: &[Step],
        at: Millis,
    ) -> Result<Valid<ExecutionEvent>, Refusal> {
        let text = event_document(self.tenant_id, content, at);
        let limits = json::Limits { max_bytes: usize::MAX };
        let find = |_: &TenantId, id: &LedgerId| {
            let step = steps.iter().find(|step| step.id == *id)?;
            Some(EntryRef { robot_id: Some(step.robot_id.clone()), created_at: step.created_at.instant() })
        };
        Valid::<ExecutionEvent>::parse_in(text.as_bytes(), &limits, |parts, report| {
            rests_on_ledger(parts, find, report);
        })
        .map_err(|violations| Refusal::Invalid(violations.as_slice().to_vec()))
    }

    /// R10 and R9: the first entry back where this is a repeat, a refusal where it may not follow.
    fn repeated_event(
        &self,
        entry: &Prepared,
        content: &Content,
        event: &ExecutionEvent,
    ) -> Result<Option<Appended>, Refusal> {
        let Some(identity) = &entry.event else { return Ok(None) };
        let recorded = self.staged.events.get(identity).or_else(|| self.known.events.get(identity));
        if let Some(recorded) = recorded {
            let next = EventFingerprint::of(event);
            let first = fingerprint(&recorded.stored)
                .ok_or_else(|| conflict(recorded, Identity::Event, Vec::new()))?;
            return match execution::next_event(Some(&first), None, &next) {
                Ok(Verdict::Repeat) => {
                    self.key_of_repeat(content, recorded)?;
                    Ok(Some(repeat_of(recorded)))
                }
                _ => {
                    let mut differs = differences(&recorded.stored.content, content);
                    differs
                        .retain(|pointer| pointer.starts_with("/payload") || pointer.starts_with("/lineage"));
                    Err(conflict(recorded, Identity::Event, differs))
                }
            };
        }
        let of = (identity.execution.clone(), identity.robot.clone());
        let last = self.staged.last_events.get(&of).or_else(|| self.known.last_events.get(&of));
        if let Some(last) = last
            && let Some(state) = ExecutionState::parse(last.stored.content.state.as_str())
        {
            let last = (state, last.attempt.unwrap_or_default());
            let next = (event.state, event.payload.attempt.get());
            execution::transition(last, next).map_err(Refusal::Transition)?;
        }
        Ok(None)
    }

    /// A repeat may carry the key its entry has, or one that nobody has.
    fn key_of_repeat(&self, content: &Content, recorded: &Row) -> Result<(), Refusal> {
        let Some(key) = &content.key else { return Ok(()) };
        match self.by_key(key.as_str()) {
            Some(other) if other.stored.id != recorded.stored.id => {
                Err(conflict(other, Identity::Key, differences(&other.stored.content, content)))
            }
            _ => Ok(()),
        }
    }

    /// A new event must not carry the key of another entry.
    fn unused_key(&self, content: &Content) -> Result<(), Refusal> {
        let Some(key) = &content.key else { return Ok(()) };
        match self.by_key(key.as_str()) {
            Some(other) => Err(conflict(other, Identity::Key, differences(&other.stored.content, content))),
            None => Ok(()),
        }
    }

    fn by_key(&self, key: &str) -> Option<&Row> {
        self.staged.keys.get(key).or_else(|| self.known.keys.get(key))
    }

    /// Lets the rest of the batch see an entry.
    fn stage(&mut self, row: &Row, event: Option<&EventIdentity>) {
        let stored = &row.stored;
        let step = Step {
            seq: stored.seq,
            id: stored.id.clone(),
            robot_id: stored.content.robot_id.clone(),
            kind: stored.content.kind.as_str().to_owned(),
            created_at: stored.created_at,
            depends_on: Vec::new(),
            reach: row.reach.clone(),
        };
        if let Some(key) = &stored.content.key {
            self.staged.key_steps.insert(key.as_str().to_owned(), step.clone());
            self.staged.keys.insert(key.as_str().to_owned(), row.clone());
        }
        if let Some(event) = event {
            self.staged.events.insert(event.clone(), row.clone());
            self.staged.last_events.insert((event.execution.clone(), event.robot.clone()), row.clone());
        }
        self.staged.steps.insert(stored.id.as_str().to_owned(), step);
    }

    /// Lets the batches after this one see it.
    fn keep(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        self.known.steps.extend(staged.steps);
        self.known.key_steps.extend(staged.key_steps);
        self.known.keys.extend(staged.keys);
        self.known.events.extend(staged.events);
        self.known.last_events.extend(staged.last_events);
    }
}

/// The event as its contract knows it: without id, sequence number and key, which are the entry's envelope (R4).
fn event_document(tenant_id: &TenantId, content: &Content, at: Millis) -> String {
    let mut text = String::with_capacity(content.payload.len() + 512);
    let mut object = ObjectWriter::new(&mut text);
    object.text("tenantId", tenant_id.as_str()).text("robotId", content.robot_id.as_str());
    object.text("module", content.module.as_str()).text("source", content.source.as_str());
    object.text("type", content.kind.as_str()).text("state", content.state.as_str());
    object.text("createdAt", &at.to_string()).raw("payload", &content.payload);
    if let Some(observed_at) = &content.observed_at {
        object.text("observedAt", observed_at.as_str());
    }
    content.write_lineage(object.key("lineage"));
    object.end();
    text
}

/// What a recorded event is compared by.
fn fingerprint(stored: &Stored) -> Option<EventFingerprint> {
    let text = event_document(&stored.tenant_id, &stored.content, stored.created_at);
    let limits = json::Limits { max_bytes: usize::MAX };
    Valid::<ExecutionEvent>::parse(text.as_bytes(), &limits).ok().map(|event| EventFingerprint::of(&event))
}

fn repeat_of(recorded: &Row) -> Appended {
    let Stored { id, seq, created_at, .. } = &recorded.stored;
    Appended { id: id.clone(), seq: *seq, created_at: *created_at, is_repeat: true }
}

fn conflict(recorded: &Row, identity: Identity, differs: Vec<String>) -> Refusal {
    Refusal::Conflict { existing: recorded.stored.id.clone(), identity, differs }
}

/// R20: what was observed was observed before the ledger took it.
fn observed_in_time(content: &Content, at: Millis) -> Result<(), Refusal> {
    let Some(observed_at) = &content.observed_at else { return Ok(()) };
    if observed_at.instant() <= at.instant() {
        return Ok(());
    }
    let mut report = Report::default();
    let message = format!("observedAt must not be after the ledger's time, {at}");
    report.add("/observedAt", "R20", Code::TooLate, message);
    Err(Refusal::Invalid(report.into_violations()))
}
