//! What a group of batches becomes: pure, from what the log holds to what is written and what each caller is told.
//!
//! Each batch is judged whole; one that is refused leaves no trace, and the next sees what the ones before it
//! will have written. Repeats (R10) write nothing and get the first entry back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crealeph_contracts::Valid;
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::execution_event::{
    EntryRef, ExecutionEvent, ExecutionEventParts, ExecutionState, rests_on_ledger,
};
use crealeph_contracts::json::{self, ObjectWriter};
use crealeph_contracts::log_rules::{LOG_RULES_KEY, RulesInForce, RulesVersion};
use crealeph_contracts::scalar::{ClientKey, LedgerId, RobotId, TenantId};
use crealeph_contracts::violation::{Code, Report};
use crealeph_decision::execution::{self, EventFingerprint, Verdict};
use crealeph_decision::snapshot::SnapshotType;

use crate::clock::Dating;
use crate::difference::differences;
use crate::entry::{Content, KEY_PREFIX, Stored};
use crate::error::{AppendError, Identity, LedgerError, Refusal};
use crate::identity::IdSource;
use crate::position::{Millis, Seq};
use crate::reach::{Effective, Reach, Used};
use crate::store::{Class, EventIdentity, Head, Known, Needs, Row, Step};

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
    let limits = json::Limits::own(usize::MAX);
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

/// What has to be known before the batches can be judged; in a log that may have one, where the second rules begin.
pub(crate) fn needs<'a>(rules: &RulesInForce, entries: impl Iterator<Item = &'a Prepared>) -> Needs {
    let mut needs = Needs::default();
    if !rules.has_second() {
        needs.keys.insert(LOG_RULES_KEY.to_owned());
    }
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
        // What is true since it was taken is newer than all before it; what was true earlier may not be.
        if content.observed_at.is_some() {
            needs.classes.extend(Class::of(content));
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
    /// The roots of the tiles that become whole, with their levels.
    pub tile_roots: Vec<(u8, Sha256)>,
    /// Where the log stands after it.
    pub head: Head,
}

/// Judges the batches one after the other.
pub(crate) fn plan(
    head: &Head,
    rules: RulesInForce,
    known: Known,
    batches: &[&[Prepared]],
    dating: Dating,
    ids: &mut IdSource,
) -> Result<Plan, LedgerError> {
    let at = dating.now.max(head.last_at);
    let mut view = View::new(head, rules, known, batches.iter().copied().flatten());
    let mut outcomes = Vec::with_capacity(batches.len());
    for batch in batches {
        outcomes.push(view.judge_batch(batch, at, dating.refusal.as_ref(), ids)?);
    }
    Ok(view.end(head, at, outcomes))
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
    latest: Millis,
) -> Result<Plan, (usize, String)> {
    let rules = RulesInForce::of_origin(&head.origin);
    let mut view = View::new(head, rules, known, entries.iter().map(|entry| &entry.prepared));
    let mut last_at = head.last_at;
    for (position, entry) in entries.iter().enumerate() {
        let refused = |reason: String| (position, reason);
        let expected = view.next_seq().ok_or_else(|| refused("the log is full".to_owned()))?;
        if entry.seq != expected {
            return Err(refused(format!("entry {} stands where entry {expected} must", entry.seq)));
        }
        if entry.created_at < last_at {
            return Err(refused(format!("entry {} is older than the one before it", entry.seq)));
        }
        if entry.created_at > latest {
            return Err(refused(format!(
                "entry {} is dated {}, ahead of the clock; set the clock, or raise `max_clock_skew_seconds` under [ledger]",
                entry.seq, entry.created_at
            )));
        }
        match view.judge(&entry.prepared, entry.seq, entry.created_at) {
            Ok(Judged::New(new)) => {
                view.add(*new, entry.id.clone(), entry.seq, entry.created_at, entry.prepared.event.as_ref());
                last_at = entry.created_at;
            }
            Ok(Judged::Repeat(first)) => {
                return Err(refused(format!("entry {} repeats entry {}", entry.seq, first.seq)));
            }
            Err(refusal) => return Err(refused(refusal.to_string())),
        }
    }
    Ok(view.end(head, last_at, Vec::new()))
}

enum Judged {
    Repeat(Appended),
    New(Box<New>),
}

/// An entry that may be written, before it has its envelope.
struct New {
    content: Content,
    execution: Option<String>,
    attempt: Option<u64>,
    reach: Reach,
    used: Used,
    parents: Vec<Seq>,
}

/// An entry that another one rests on, in the log or in this plan.
#[derive(Clone, Copy)]
struct Parent<'a> {
    seq: Seq,
    id: &'a LedgerId,
    robot_id: &'a RobotId,
    kind: &'a str,
    created_at: Millis,
    effective: Effective,
    reach: &'a Reach,
    used: &'a Used,
}

impl<'a> From<&'a Step> for Parent<'a> {
    fn from(step: &'a Step) -> Self {
        let Step { seq, id, robot_id, kind, created_at, effective_at, reach, used, .. } = step;
        let effective = Effective { at: *effective_at, seq: *seq };
        Parent { seq: *seq, id, robot_id, kind, created_at: *created_at, effective, reach, used }
    }
}

impl<'a> From<&'a Row> for Parent<'a> {
    fn from(Row { stored, reach, used, .. }: &'a Row) -> Self {
        let effective = stored.effective();
        let Stored { seq, id, created_at, content, .. } = stored;
        let (robot_id, kind) = (&content.robot_id, content.kind.as_str());
        Parent { seq: *seq, id, robot_id, kind, created_at: *created_at, effective, reach, used }
    }
}

/// Where among the planned rows an entry is found.
#[derive(Default)]
struct Staged {
    ids: HashMap<LedgerId, usize>,
    keys: HashMap<ClientKey, usize>,
    events: BTreeMap<EventIdentity, usize>,
    last_events: BTreeMap<(String, String), usize>,
    newest: BTreeMap<Class, Effective>,
}

/// The log as the next entry sees it: what was read, what earlier batches add, and the current batch.
struct View<'a> {
    tenant_id: &'a TenantId,
    rules: RulesInForce,
    size: u64,
    known: Known,
    rows: Vec<Row>,
    edges: Vec<(Seq, Seq)>,
    staged: Staged,
    /// Some entry came late, so that an entry may not be the newest of its class.
    has_late: bool,
}

impl<'a> View<'a> {
    fn new<'e>(
        head: &'a Head,
        mut rules: RulesInForce,
        known: Known,
        mut entries: impl Iterator<Item = &'e Prepared>,
    ) -> View<'a> {
        let (rows, edges, staged) = (Vec::new(), Vec::new(), Staged::default());
        let has_late = entries.any(|entry| entry.content.observed_at.is_some());
        if let Some(marker) = known.keys.get(LOG_RULES_KEY) {
            see(&mut rules, &marker.stored);
        }
        let (tenant_id, size) = (&head.tenant_id, head.frontier.size());
        View { tenant_id, rules, size, known, rows, edges, staged, has_late }
    }

    fn next_seq(&self) -> Option<Seq> {
        Seq::new(self.size + self.rows.len() as u64 + 1)
    }

    fn judge_batch(
        &mut self,
        batch: &[Prepared],
        at: Millis,
        undated: Option<&LedgerError>,
        ids: &mut IdSource,
    ) -> Result<Result<Vec<Appended>, AppendError>, LedgerError> {
        let (rows, edges) = (self.rows.len(), self.edges.len());
        let mut answers = Vec::with_capacity(batch.len());
        for (position, entry) in batch.iter().enumerate() {
            let seq = self.next_seq().ok_or(LedgerError::Beyond {
                what: "the number of entries in the log",
                found: usize::MAX,
                limit: Seq::MAX.get() as usize,
            })?;
            match self.judge(entry, seq, at) {
                Ok(Judged::Repeat(answer)) => answers.push(answer),
                Ok(Judged::New(_)) if let Some(error) = undated => {
                    self.forget_from(rows, edges);
                    return Ok(Err(AppendError::Ledger(error.clone())));
                }
                Ok(Judged::New(new)) => {
                    let id = match &entry.proposed {
                        Some(id) => id.clone(),
                        None => ids.next(at, seq)?,
                    };
                    answers.push(Appended { id: id.clone(), seq, created_at: at, is_repeat: false });
                    self.add(*new, id, seq, at, entry.event.as_ref());
                }
                Err(refusal) => {
                    self.forget_from(rows, edges);
                    return Ok(Err(AppendError::Refused { position, refusal }));
                }
            }
        }
        Ok(Ok(answers))
    }

    /// Gives an entry its envelope, and lets those after it see it.
    fn add(&mut self, new: New, id: LedgerId, seq: Seq, created_at: Millis, event: Option<&EventIdentity>) {
        let New { content, execution, attempt, reach, used, parents } = new;
        let place = self.rows.len();
        self.staged.ids.insert(id.clone(), place);
        if let Some(key) = &content.key {
            self.staged.keys.insert(key.clone(), place);
        }
        if let Some(event) = event {
            self.staged.events.insert(event.clone(), place);
            self.staged.last_events.insert((event.execution.clone(), event.robot.clone()), place);
        }
        self.edges.extend(parents.into_iter().map(|parent| (parent, seq)));
        let stored = Stored { id, seq, tenant_id: self.tenant_id.clone(), created_at, content };
        see(&mut self.rules, &stored);
        let leaf = stored.leaf_hash();
        let newest = self.newest_with(&stored);
        self.rows.push(Row { stored, reach, used, newest, leaf, execution, attempt });
    }

    /// The effective newest of the entry's class, with the entry; `None` for a type that no snapshot holds.
    fn newest_with(&mut self, stored: &Stored) -> Option<Seq> {
        if !self.has_late {
            return SnapshotType::parse(stored.content.kind.as_str()).map(|_| stored.seq);
        }
        let class = Class::of(&stored.content)?;
        let known = self.staged.newest.get(&class).or_else(|| self.known.newest.get(&class));
        let newest = stored.effective().max_of(known.copied());
        self.staged.newest.insert(class, newest);
        Some(newest.seq)
    }

    /// Leaves no trace of a batch that was refused.
    fn forget_from(&mut self, rows: usize, edges: usize) {
        self.rows.truncate(rows);
        self.edges.truncate(edges);
        let staged = &mut self.staged;
        staged.ids.retain(|_, place| *place < rows);
        staged.keys.retain(|_, place| *place < rows);
        staged.events.retain(|_, place| *place < rows);
        staged.newest.clear();
        for stored in self.rows.iter().filter(|_| self.has_late).map(|row| &row.stored) {
            if let Some(class) = Class::of(&stored.content) {
                let known = staged.newest.get(&class).or_else(|| self.known.newest.get(&class));
                let newest = stored.effective().max_of(known.copied());
                staged.newest.insert(class, newest);
            }
        }
        // An event of the refused batch may have hidden an earlier one.
        staged.last_events.clear();
        for (event, place) in &staged.events {
            let last = staged.last_events.entry((event.execution.clone(), event.robot.clone())).or_default();
            *last = (*last).max(*place);
        }
    }

    fn end(self, head: &Head, at: Millis, outcomes: Vec<Result<Vec<Appended>, AppendError>>) -> Plan {
        let mut after = head.clone();
        let mut tile_roots = Vec::new();
        for row in &self.rows {
            after.frontier.push(row.leaf, |level, root| tile_roots.push((level, root)));
        }
        if !self.rows.is_empty() {
            after.last_at = at;
        }
        Plan { outcomes, rows: self.rows, edges: self.edges, tile_roots, head: after }
    }

    fn judge(&self, entry: &Prepared, seq: Seq, at: Millis) -> Result<Judged, Refusal> {
        if let Some(id) = &entry.proposed
            && self.by_id(id.as_str()).is_some()
        {
            return Err(Refusal::IdTaken(id.clone()));
        }
        let mut content = entry.content.clone();
        let (parents, unknown) = self.resolve(&mut content);
        if content.is_event() {
            let event = self.valid_event(&content, &parents, seq, at)?;
            if let Some(repeat) = self.repeated_event(entry, &content, &event)? {
                return Ok(Judged::Repeat(repeat));
            }
            let event = self.passed_gate(event, seq)?;
            self.unused_key(&content)?;
            let attempt = Some(event.payload.attempt.get());
            let execution = Some(event.payload.execution_id.as_str().to_owned());
            return Ok(Judged::New(Box::new(New::of(content, execution, attempt, &parents))));
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
        debug_assert!(parents.iter().all(|parent| parent.seq < seq), "an entry can only rest on older ones");
        let execution = content.execution_id.as_ref().map(|id| id.as_str().to_owned());
        Ok(Judged::New(Box::new(New::of(content, execution, None, &parents))))
    }

    fn staged(&self, place: Option<&usize>) -> Option<&Row> {
        place.and_then(|place| self.rows.get(*place))
    }

    fn by_id(&self, id: &str) -> Option<Parent<'_>> {
        let staged = self.staged(self.staged.ids.get(id)).map(Parent::from);
        staged.or_else(|| self.known.steps.get(id).map(Parent::from))
    }

    fn step_by_key(&self, key: &str) -> Option<Parent<'_>> {
        let staged = self.staged(self.staged.keys.get(key)).map(Parent::from);
        staged.or_else(|| self.known.key_steps.get(key).map(Parent::from))
    }

    fn by_key(&self, key: &str) -> Option<&Row> {
        self.staged(self.staged.keys.get(key)).or_else(|| self.known.keys.get(key))
    }

    /// Replaces `key:` references by ids; what the log does not hold is returned and left as it is.
    fn resolve(&self, content: &mut Content) -> (Vec<Parent<'_>>, Vec<String>) {
        if content.depends_on.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut ids = BTreeSet::new();
        let mut parents = BTreeMap::new();
        let mut unknown = Vec::new();
        for reference in &content.depends_on {
            let parent = match reference.as_str().strip_prefix(KEY_PREFIX) {
                Some(key) => self.step_by_key(key),
                None => self.by_id(reference.as_str()),
            };
            match parent {
                Some(parent) => {
                    ids.insert(parent.id.clone());
                    parents.insert(parent.seq, parent);
                }
                None => {
                    ids.insert(reference.clone());
                    unknown.push(reference.as_str().to_owned());
                }
            }
        }
        content.resolve(ids);
        (parents.into_values().collect(), unknown)
    }

    /// The event judged by its contract and against the ledger (§6, §7, R19). Whether it passes the gate is asked once it
    /// is known to be new: a repeat of an event that was recorded under the first rules stays a repeat (R10).
    fn valid_event(
        &self,
        content: &Content,
        parents: &[Parent<'_>],
        seq: Seq,
        at: Millis,
    ) -> Result<ExecutionEvent, Refusal> {
        let text = event_document(self.tenant_id, content, at);
        let limits = json::Limits::own(usize::MAX);
        let find = |_: &TenantId, id: &LedgerId| {
            let parent = parents.iter().find(|parent| parent.id == id)?;
            Some(EntryRef {
                robot_id: Some(parent.robot_id.clone()),
                created_at: parent.created_at.instant(),
            })
        };
        let rests = |parts: &ExecutionEventParts, report: &mut Report| rests_on_ledger(parts, find, report);
        let judged = ExecutionEvent::parse_under_first_rules(text.as_bytes(), &limits, rests);
        judged.map_err(|violations| {
            let all = match self.rules.at(seq.get()) {
                RulesVersion::First => violations,
                // Every violation is reported, those of the gate too (R8).
                RulesVersion::Second => {
                    match Valid::<ExecutionEvent>::parse_in(text.as_bytes(), &limits, rests) {
                        Err(all) => all,
                        Ok(_) => violations,
                    }
                }
            };
            Refusal::Invalid(all.as_slice().to_vec())
        })
    }

    /// A new event, judged by the gate (§5) where the second rules hold.
    fn passed_gate(&self, event: ExecutionEvent, seq: Seq) -> Result<ExecutionEvent, Refusal> {
        match self.rules.at(seq.get()) {
            RulesVersion::First => Ok(event),
            RulesVersion::Second => match Valid::check(event) {
                Ok(event) => Ok(event.into_inner()),
                Err(violations) => Err(Refusal::Invalid(violations.as_slice().to_vec())),
            },
        }
    }

    /// R10 and R9: the first entry back where this is a repeat, a refusal where it may not follow.
    fn repeated_event(
        &self,
        entry: &Prepared,
        content: &Content,
        event: &ExecutionEvent,
    ) -> Result<Option<Appended>, Refusal> {
        let Some(identity) = &entry.event else { return Ok(None) };
        let recorded =
            self.staged(self.staged.events.get(identity)).or_else(|| self.known.events.get(identity));
        if let Some(recorded) = recorded {
            let next = EventFingerprint::of(event).map_err(Refusal::Unreadable)?;
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
        let last = self.staged(self.staged.last_events.get(&of)).or_else(|| self.known.last_events.get(&of));
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
}

impl New {
    fn of(content: Content, execution: Option<String>, attempt: Option<u64>, parents: &[Parent<'_>]) -> New {
        let (mut reach, mut used) = (Reach::default(), Used::default());
        for parent in parents.iter().filter(|parent| *parent.robot_id == content.robot_id) {
            reach.extend(parent.kind, parent.seq, parent.reach);
            used.extend(parent.kind, parent.effective, parent.used);
        }
        let parents = parents.iter().map(|parent| parent.seq).collect();
        New { content, execution, attempt, reach, used, parents }
    }
}

/// The row that an entry becomes, computed again from the entry and those it depends on.
/// `newest` is the effective newest of each class before the entry, and with it afterwards.
pub(crate) fn recompute(
    Row { stored, leaf, .. }: &Row,
    parents: &[&Step],
    newest: &mut BTreeMap<Class, Effective>,
) -> Row {
    let content = stored.content.clone();
    let event = if content.is_event() { event_identity(&content) } else { None };
    let (execution, attempt) = match event {
        Some(event) => (Some(event.execution), Some(event.attempt)),
        None => (content.execution_id.as_ref().map(|id| id.as_str().to_owned()), None),
    };
    let parents: Vec<Parent<'_>> = parents.iter().map(|step| Parent::from(*step)).collect();
    let New { content, execution, attempt, reach, used, .. } = New::of(content, execution, attempt, &parents);
    let Stored { id, seq, tenant_id, created_at, .. } = stored;
    let (id, tenant_id) = (id.clone(), tenant_id.clone());
    let stored = Stored { id, seq: *seq, tenant_id, created_at: *created_at, content };
    let newest = Class::of(&stored.content).map(|class| {
        let own = stored.effective().max_of(newest.get(&class).copied());
        newest.insert(class, own);
        own.seq
    });
    Row { stored, reach, used, newest, leaf: *leaf, execution, attempt }
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
    let limits = json::Limits::own(usize::MAX);
    let event = ExecutionEvent::parse_under_first_rules(text.as_bytes(), &limits, |_, _| ()).ok()?;
    EventFingerprint::of(&event).ok()
}

/// Takes notice of where the second rules begin.
pub(crate) fn see(rules: &mut RulesInForce, stored: &Stored) {
    let Stored { seq, content, .. } = stored;
    rules.see(seq.get(), content.kind.as_str(), content.key.as_ref().map(|key| key.as_str()));
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
