//! Plans a group of batches: pure, from the content of the log to the rows to write and each caller's answer.
//!
//! Each batch is judged as a whole; one that is refused leaves no trace, and the next one sees the entries that the ones before it
//! will have written. Repeats (R10) write nothing and return the first entry.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crealeph_contracts::Valid;
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::execution_event::{EntryRef, ExecutionEvent, ExecutionEventParts, rests_on_ledger};
use crealeph_contracts::json;
use crealeph_contracts::log_rules::{LOG_RULES_KEY, RulesInForce, RulesVersion};
use crealeph_contracts::scalar::{ClientKey, LedgerId, Name, TenantId};
use crealeph_contracts::shape::Set;
use crealeph_contracts::violation::{Code, Report};
use crealeph_decision::execution::{self, EventFingerprint, EventVerdict};
use crealeph_decision::snapshot::SnapshotType;

use crate::clock::Dating;
use crate::difference::differences;
use crate::entry::{Content, KEY_PREFIX, StoredEntry};
use crate::error::{AppendError, EntryIdentity, EntryRefusal, LedgerError};
use crate::event::{event_document, fingerprint, read_event};
use crate::identity::IdSource;
use crate::position::{Millis, Seq};
use crate::reach::EffectiveTime;
use crate::row::{DerivedColumns, EntryClass, EntryRow, EventIdentity, ExecutionKey, LineageNode};
use crate::store::{Head, KnownEntries, NeededEntries};

/// The result for one entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedEntry {
    /// Its id; of the first entry, if this is a repeat.
    pub id: LedgerId,
    /// Its sequence number in the tenant's log.
    pub seq: Seq,
    /// When the ledger accepted it.
    pub created_at: Millis,
    /// It already existed, and nothing was written.
    pub is_repeat: bool,
}

/// An entry prepared on its producer's thread.
#[derive(Clone, Debug)]
pub(crate) struct PreparedEntry {
    pub content: Content,
    /// Who appends it.
    pub actor: Option<Name>,
    /// Its event, if it is one that is valid by itself.
    pub event: Option<Box<ExecutionEvent>>,
    /// The id it must have, if that was created before.
    pub id: Option<LedgerId>,
    /// The entry that it must follow directly, if its basis was read there.
    pub after: Option<Seq>,
}

impl PreparedEntry {
    pub(crate) fn new(tenant_id: &TenantId, content: Content) -> PreparedEntry {
        let event = if content.is_event() { read_event(tenant_id, &content) } else { None };
        PreparedEntry { content, actor: None, event, id: None, after: None }
    }
}

/// What has to be known before the batches can be judged; in a log that may have one, where the second rules begin.
pub(crate) fn needs<'a>(
    rules: &RulesInForce,
    entries: impl Iterator<Item = &'a PreparedEntry>,
) -> NeededEntries {
    let mut needs = NeededEntries::default();
    if !rules.has_second() {
        needs.new_keys.insert(LOG_RULES_KEY.to_owned());
    }
    for PreparedEntry { content, event, id, .. } in entries {
        if let Some(id) = id {
            needs.ids.insert(id.as_str().to_owned());
        }
        for id in &content.depends_on {
            match id.as_str().strip_prefix(KEY_PREFIX) {
                Some(key) => needs.lineage_keys.insert(key.to_owned()),
                None => needs.ids.insert(id.as_str().to_owned()),
            };
        }
        if let Some(key) = &content.key {
            needs.new_keys.insert(key.as_str().to_owned());
        }
        // Without observedAt an entry is newer than all before it; with one it may not be.
        if content.observed_at.is_some() {
            needs.classes.extend(EntryClass::of(content));
        }
        if let Some(event) = event {
            let identity = EventIdentity::from(&**event);
            needs.executions.insert(identity.execution_key());
            needs.events.insert(identity);
        }
    }
    needs
}

/// The plan for a group of batches.
#[derive(Debug)]
pub(crate) struct AppendPlan {
    /// The answer to each batch's caller.
    pub outcomes: Vec<Result<Vec<AppendedEntry>, AppendError>>,
    /// The entries to write, in order.
    pub rows: Vec<EntryRow>,
    /// The same, as later lineages need them.
    pub nodes: Vec<Arc<LineageNode>>,
    /// Their dependencies, as (dependency, dependent).
    pub edges: Vec<(Seq, Seq)>,
    /// The roots of the tiles that are completed, with their levels.
    pub tile_roots: Vec<(u8, Sha256)>,
    /// The head of the log after it.
    pub head: Head,
}

/// Judges the batches one after the other.
pub(crate) fn plan(
    head: &Head,
    rules: RulesInForce,
    known: KnownEntries,
    batches: &[&[PreparedEntry]],
    dating: Dating,
    ids: &mut IdSource,
) -> AppendPlan {
    let at = dating.now.max(head.last_at);
    let mut planner = Planner::new(head, rules, known, batches.iter().copied().flatten());
    let outcomes = batches.iter().map(|batch| {
        let (rows, edges) = (planner.rows.len(), planner.edges.len());
        let outcome = planner.add_batch(batch, at, dating.refusal.as_ref(), ids);
        if outcome.is_err() {
            planner.forget_from(rows, edges);
        }
        outcome
    });
    let outcomes = outcomes.collect();
    planner.finish(head, at, outcomes)
}

/// An entry of an export, with the envelope it had.
#[derive(Clone, Debug)]
pub(crate) struct ImportedEntry {
    pub prepared: PreparedEntry,
    pub id: LedgerId,
    pub seq: Seq,
    pub created_at: Millis,
}

/// Why an entry of an export is refused.
#[derive(Clone, Debug)]
pub(crate) struct ImportRefusal {
    /// Which of the entries, from 0.
    pub position: usize,
    pub reason: String,
}

/// Judges entries that another ledger accepted: each must follow the last, and be one that this ledger would have accepted
/// then.
pub(crate) fn plan_import(
    head: &Head,
    known: KnownEntries,
    entries: &[ImportedEntry],
    latest: Millis,
) -> Result<AppendPlan, ImportRefusal> {
    let rules = RulesInForce::of_origin(&head.origin);
    let mut planner = Planner::new(head, rules, known, entries.iter().map(|entry| &entry.prepared));
    let mut last_at = head.last_at;
    for (position, entry) in entries.iter().enumerate() {
        let refused = |reason: String| ImportRefusal { position, reason };
        let expected = planner.next_seq().ok_or_else(|| refused("the log is full".to_owned()))?;
        if entry.seq != expected {
            return Err(refused(format!("entry {} is where entry {expected} must be", entry.seq)));
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
        match planner.judge(&entry.prepared, entry.seq, entry.created_at) {
            Ok(JudgedEntry::New(new)) => {
                let envelope = Envelope {
                    id: entry.id.clone(),
                    seq: entry.seq,
                    created_at: entry.created_at,
                    actor: entry.prepared.actor.clone(),
                };
                planner.add(*new, envelope);
                last_at = entry.created_at;
            }
            Ok(JudgedEntry::Repeat(first)) => {
                return Err(refused(format!("entry {} repeats entry {}", entry.seq, first.seq)));
            }
            Err(refusal) => return Err(refused(refusal.to_string())),
        }
    }
    Ok(planner.finish(head, last_at, Vec::new()))
}

enum JudgedEntry {
    Repeat(AppendedEntry),
    New(Box<AcceptedEntry>),
}

/// What the ledger adds to an entry.
struct Envelope {
    id: LedgerId,
    seq: Seq,
    created_at: Millis,
    actor: Option<Name>,
}

/// What may be written, before it has its envelope.
struct AcceptedEntry {
    /// With the ids that its lineage was resolved to.
    content: Content,
    event: Option<EventIdentity>,
    derived: DerivedColumns,
    parents: Vec<Seq>,
}

impl AcceptedEntry {
    fn new(content: Content, event: Option<EventIdentity>, parents: &[&LineageNode]) -> AcceptedEntry {
        let derived = DerivedColumns::new(&content, event.as_ref(), parents.iter().copied());
        let parents = parents.iter().map(|parent| parent.seq).collect();
        AcceptedEntry { content, event, derived, parents }
    }
}

/// The position of an entry among the planned rows.
#[derive(Default)]
struct StagedEntries {
    ids: HashMap<LedgerId, usize>,
    keys: HashMap<ClientKey, usize>,
    events: BTreeMap<EventIdentity, usize>,
    last_events: BTreeMap<ExecutionKey, EventIdentity>,
    newest: BTreeMap<EntryClass, EffectiveTime>,
}

/// The log as the next entry sees it: the content read, earlier batches, and the current batch.
struct Planner<'a> {
    tenant_id: &'a TenantId,
    rules: RulesInForce,
    size: u64,
    known: KnownEntries,
    rows: Vec<EntryRow>,
    /// One for each row.
    nodes: Vec<Arc<LineageNode>>,
    edges: Vec<(Seq, Seq)>,
    staged: StagedEntries,
    /// Some entry came late, so that an entry may not be the newest of its class.
    has_late: bool,
}

impl<'a> Planner<'a> {
    fn new<'e>(
        head: &'a Head,
        mut rules: RulesInForce,
        known: KnownEntries,
        mut entries: impl Iterator<Item = &'e PreparedEntry>,
    ) -> Planner<'a> {
        let has_late = entries.any(|entry| entry.content.observed_at.is_some());
        if let Some(marker) = known.recorded.get(LOG_RULES_KEY) {
            see(&mut rules, &marker.entry);
        }
        Planner {
            tenant_id: &head.tenant_id,
            rules,
            size: head.frontier.size(),
            known,
            rows: Vec::new(),
            nodes: Vec::new(),
            edges: Vec::new(),
            staged: StagedEntries::default(),
            has_late,
        }
    }

    fn next_seq(&self) -> Option<Seq> {
        Seq::new(self.size + self.rows.len() as u64 + 1)
    }

    /// Judges a batch and stages its new entries. On an error, its staged entries must be forgotten.
    fn add_batch(
        &mut self,
        batch: &[PreparedEntry],
        at: Millis,
        undated: Option<&LedgerError>,
        ids: &mut IdSource,
    ) -> Result<Vec<AppendedEntry>, AppendError> {
        let mut answers = Vec::with_capacity(batch.len());
        for (position, entry) in batch.iter().enumerate() {
            let seq = self.next_seq().ok_or(LedgerError::Beyond {
                what: "the number of entries in the log",
                found: usize::MAX,
                limit: Seq::MAX.get() as usize,
            })?;
            let judged = self.judge(entry, seq, at);
            match judged.map_err(|refusal| AppendError::Refused { position, refusal })? {
                JudgedEntry::Repeat(answer) => answers.push(answer),
                JudgedEntry::New(_) if let Some(error) = undated => return Err(error.clone().into()),
                JudgedEntry::New(new) => {
                    let id = entry.id.clone().map_or_else(|| ids.next(at, seq), Ok)?;
                    answers.push(AppendedEntry { id: id.clone(), seq, created_at: at, is_repeat: false });
                    self.add(*new, Envelope { id, seq, created_at: at, actor: entry.actor.clone() });
                }
            }
        }
        Ok(answers)
    }

    /// Gives an entry its envelope, and shows it to those after it.
    fn add(&mut self, accepted: AcceptedEntry, Envelope { id, seq, created_at, actor }: Envelope) {
        let AcceptedEntry { content, event, mut derived, parents } = accepted;
        let position = self.rows.len();
        self.staged.ids.insert(id.clone(), position);
        if let Some(key) = &content.key {
            self.staged.keys.insert(key.clone(), position);
        }
        if let Some(event) = event {
            self.staged.last_events.insert(event.execution_key(), event.clone());
            self.staged.events.insert(event, position);
        }
        self.edges.extend(parents.into_iter().map(|parent| (parent, seq)));
        let entry = StoredEntry { id, seq, tenant_id: self.tenant_id.clone(), created_at, actor, content };
        see(&mut self.rules, &entry);
        derived.newest = self.newest_with(&entry);
        let row = EntryRow { leaf: entry.leaf_hash(), entry, derived };
        self.nodes.push(Arc::new(LineageNode::from(&row)));
        self.rows.push(row);
    }

    /// The effective newest of the entry's class, with the entry; `None` for a type that no snapshot holds.
    fn newest_with(&mut self, entry: &StoredEntry) -> Option<Seq> {
        if !self.has_late {
            return SnapshotType::parse(entry.content.kind.as_str()).map(|_| entry.seq);
        }
        self.staged.raise_newest(&self.known, entry)
    }

    /// Removes every trace of a batch that was refused.
    fn forget_from(&mut self, rows: usize, edges: usize) {
        self.rows.truncate(rows);
        self.nodes.truncate(rows);
        self.edges.truncate(edges);
        let staged = &mut self.staged;
        staged.ids.retain(|_, position| *position < rows);
        staged.keys.retain(|_, position| *position < rows);
        staged.events.retain(|_, position| *position < rows);
        staged.newest.clear();
        for row in self.rows.iter().filter(|_| self.has_late) {
            staged.raise_newest(&self.known, &row.entry);
        }
        // An event of the refused batch may have hidden an earlier one.
        staged.last_events.clear();
        let mut events: Vec<(&EventIdentity, usize)> =
            staged.events.iter().map(|(event, position)| (event, *position)).collect();
        events.sort_unstable_by_key(|(_, position)| *position);
        for (event, _) in events {
            staged.last_events.insert(event.execution_key(), event.clone());
        }
    }

    fn finish(
        self,
        head: &Head,
        at: Millis,
        outcomes: Vec<Result<Vec<AppendedEntry>, AppendError>>,
    ) -> AppendPlan {
        let mut after = head.clone();
        let mut tile_roots = Vec::new();
        for row in &self.rows {
            after.frontier.push(row.leaf, |level, root| tile_roots.push((level, root)));
        }
        if !self.rows.is_empty() {
            after.last_at = at;
        }
        let Planner { rows, nodes, edges, .. } = self;
        AppendPlan { outcomes, rows, nodes, edges, tile_roots, head: after }
    }

    fn judge(&self, entry: &PreparedEntry, seq: Seq, at: Millis) -> Result<JudgedEntry, EntryRefusal> {
        if let Some(after) = entry.after
            && after.next() != seq
        {
            return Err(EntryRefusal::Moved { after, last: seq.previous() });
        }
        if let Some(id) = &entry.id
            && self.node_by_id(id.as_str()).is_some()
        {
            return Err(EntryRefusal::IdTaken(id.clone()));
        }
        let mut content = entry.content.clone();
        let (parents, unknown) = self.resolve(&mut content);
        if content.is_event() {
            let event = self.valid_event(entry.event.as_deref(), &content, &parents, seq, at)?;
            let identity = EventIdentity::from(&event);
            if let Some(repeat) = self.repeated_event(&identity, &content, &event)? {
                return Ok(JudgedEntry::Repeat(repeat));
            }
            self.pass_gate(event, seq)?;
            self.check_key(&content, None)?;
            return Ok(JudgedEntry::New(Box::new(AcceptedEntry::new(content, Some(identity), &parents))));
        }
        if !unknown.is_empty() {
            return Err(EntryRefusal::UnknownLineage(unknown));
        }
        if let Some(key) = &content.key
            && let Some(recorded) = self.recorded(key.as_str())
        {
            let differs = differences(&recorded.entry.content, &content);
            return if differs.is_empty() {
                Ok(JudgedEntry::Repeat(repeat_of(recorded)))
            } else {
                Err(conflict(recorded, EntryIdentity::Key, differs))
            };
        }
        observed_in_time(&content, at)?;
        debug_assert!(parents.iter().all(|parent| parent.seq < seq), "an entry can only rest on older ones");
        Ok(JudgedEntry::New(Box::new(AcceptedEntry::new(content, None, &parents))))
    }

    fn staged_row(&self, position: Option<&usize>) -> Option<&EntryRow> {
        position.and_then(|position| self.rows.get(*position))
    }

    fn staged_node(&self, position: Option<&usize>) -> Option<&LineageNode> {
        position.and_then(|position| self.nodes.get(*position)).map(|node| &**node)
    }

    fn node_by_id(&self, id: &str) -> Option<&LineageNode> {
        let staged = self.staged_node(self.staged.ids.get(id));
        staged.or_else(|| self.known.by_id.get(id).map(|node| &**node))
    }

    fn node_by_key(&self, key: &str) -> Option<&LineageNode> {
        let staged = self.staged_node(self.staged.keys.get(key));
        staged.or_else(|| self.known.by_key.get(key).map(|node| &**node))
    }

    /// The whole entry of a client key that is to be written.
    fn recorded(&self, key: &str) -> Option<&EntryRow> {
        self.staged_row(self.staged.keys.get(key)).or_else(|| self.known.recorded.get(key))
    }

    /// Replaces `key:` references by ids; keys that the log does not have are returned and left as they are.
    fn resolve(&self, content: &mut Content) -> (Vec<&LineageNode>, Vec<String>) {
        if content.depends_on.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut ids = BTreeSet::new();
        let mut parents = BTreeMap::new();
        let mut unknown = Vec::new();
        for reference in &content.depends_on {
            let parent = match reference.as_str().strip_prefix(KEY_PREFIX) {
                Some(key) => self.node_by_key(key),
                None => self.node_by_id(reference.as_str()),
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

    /// The event judged by its contract and against the ledger (§6, §7, R19). Whether it passes the gate is checked once it
    /// is known to be new: a repeat of an event that was recorded under the first rules stays a repeat (R10).
    fn valid_event(
        &self,
        event: Option<&ExecutionEvent>,
        content: &Content,
        parents: &[&LineageNode],
        seq: Seq,
        at: Millis,
    ) -> Result<ExecutionEvent, EntryRefusal> {
        let find = |_: &TenantId, id: &LedgerId| {
            let parent = parents.iter().find(|parent| parent.id == *id)?;
            Some(EntryRef {
                robot_id: Some(parent.robot_id.clone()),
                created_at: parent.created_at.instant(),
            })
        };
        let rests = |parts: &ExecutionEventParts, report: &mut Report| rests_on_ledger(parts, find, report);
        if let (Some(event), Some(depends_on)) = (event, Set::new(content.depends_on.clone())) {
            let mut event = event.clone();
            event.created_at = at.timestamp();
            event.lineage.depends_on = depends_on;
            if let Ok(event) = event.check_under_first_rules(rests) {
                return Ok(event);
            }
        }
        // Every violation is reported, including those that made the event unreadable, and those of the gate (R8).
        let text = event_document(self.tenant_id, content, at);
        let limits = json::Limits::own(usize::MAX);
        let judged = match self.rules.at(seq.get()) {
            RulesVersion::First => ExecutionEvent::parse_under_first_rules(text.as_bytes(), &limits, rests),
            RulesVersion::Second => Valid::parse_in(text.as_bytes(), &limits, rests).map(Valid::into_inner),
        };
        judged.map_err(|violations| EntryRefusal::Invalid(violations.as_slice().to_vec()))
    }

    /// Judges a new event by the gate (§5), if the second rules apply.
    fn pass_gate(&self, event: ExecutionEvent, seq: Seq) -> Result<(), EntryRefusal> {
        match self.rules.at(seq.get()) {
            RulesVersion::First => Ok(()),
            RulesVersion::Second => match Valid::check(event) {
                Ok(_) => Ok(()),
                Err(violations) => Err(EntryRefusal::Invalid(violations.as_slice().to_vec())),
            },
        }
    }

    /// R10 and R9: the first entry back if this is a repeat, a refusal if it may not follow.
    fn repeated_event(
        &self,
        identity: &EventIdentity,
        content: &Content,
        event: &ExecutionEvent,
    ) -> Result<Option<AppendedEntry>, EntryRefusal> {
        let staged = self.staged_row(self.staged.events.get(identity));
        if let Some(recorded) = staged.or_else(|| self.known.events.get(identity)) {
            let next = EventFingerprint::of(event).map_err(EntryRefusal::Unreadable)?;
            let first = fingerprint(&recorded.entry)
                .ok_or_else(|| conflict(recorded, EntryIdentity::Event, Vec::new()))?;
            return match execution::next_event(Some(&first), None, &next) {
                Ok(EventVerdict::Repeat) => {
                    self.check_key(content, Some(&recorded.entry.id))?;
                    Ok(Some(repeat_of(recorded)))
                }
                _ => {
                    let mut differs = differences(&recorded.entry.content, content);
                    differs
                        .retain(|pointer| pointer.starts_with("/payload") || pointer.starts_with("/lineage"));
                    Err(conflict(recorded, EntryIdentity::Event, differs))
                }
            };
        }
        let execution = identity.execution_key();
        let staged = self.staged.last_events.get(&execution);
        if let Some(last) = staged.or_else(|| self.known.last_events.get(&execution)) {
            let (last, next) = ((last.state, last.attempt), (identity.state, identity.attempt));
            execution::transition(last, next).map_err(EntryRefusal::Transition)?;
        }
        Ok(None)
    }

    /// An event must not carry the key of another entry; a repeat may carry its own.
    fn check_key(&self, content: &Content, own: Option<&LedgerId>) -> Result<(), EntryRefusal> {
        let other = content.key.as_ref().and_then(|key| self.recorded(key.as_str()));
        match other.filter(|other| Some(&other.entry.id) != own) {
            Some(other) => {
                Err(conflict(other, EntryIdentity::Key, differences(&other.entry.content, content)))
            }
            None => Ok(()),
        }
    }
}

impl StagedEntries {
    /// Adds an entry to the newest of its class, and returns that.
    fn raise_newest(&mut self, known: &KnownEntries, entry: &StoredEntry) -> Option<Seq> {
        let class = EntryClass::of(&entry.content)?;
        let before = self.newest.get(&class).or_else(|| known.newest.get(&class));
        let newest = entry.effective().max_of(before.copied());
        self.newest.insert(class, newest);
        Some(newest.seq)
    }
}

/// Notes where the second rules begin.
pub(crate) fn see(rules: &mut RulesInForce, entry: &StoredEntry) {
    let StoredEntry { seq, content, .. } = entry;
    rules.see(seq.get(), content.kind.as_str(), content.key.as_ref().map(|key| key.as_str()));
}

fn repeat_of(recorded: &EntryRow) -> AppendedEntry {
    let StoredEntry { id, seq, created_at, .. } = &recorded.entry;
    AppendedEntry { id: id.clone(), seq: *seq, created_at: *created_at, is_repeat: true }
}

fn conflict(recorded: &EntryRow, identity: EntryIdentity, differs: Vec<String>) -> EntryRefusal {
    EntryRefusal::Conflict { existing: recorded.entry.id.clone(), identity, differs }
}

/// R20: content was observed before the ledger accepted it.
fn observed_in_time(content: &Content, at: Millis) -> Result<(), EntryRefusal> {
    let Some(observed_at) = &content.observed_at else { return Ok(()) };
    if observed_at.instant() <= at.instant() {
        return Ok(());
    }
    let mut report = Report::default();
    let message = format!("observedAt must not be after the ledger's time, {at}");
    report.add("/observedAt", "R20", Code::TooLate, message);
    Err(EntryRefusal::Invalid(report.into_violations()))
}
