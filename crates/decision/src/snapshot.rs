//! The evidence about a robot at an instant (R17, R19): the newest counted entry of each type, the newest tasks and
//! playbooks, the allowed dependencies, and whether it is coherent. Derived from [`SnapshotFacts`], which a caller
//! reads from an index, or [`SnapshotFacts::from_entries`] gathers from a plain list; the same ledger gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::entry::Entry;
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::{ComposeError, JsonObject, ObjectWriter};
use crealeph_contracts::policy_input::LedgerRecency;
use crealeph_contracts::scalar::{Count, LedgerId, Name, RobotId, TenantId};
use crealeph_contracts::shape::Shape;

use crate::coherence::{CoherenceRules, CoherenceVerdict, coherence};

/// How many tasks and how many playbooks a snapshot shows.
pub const MAX_LISTED: usize = 100;
/// How many ids may be depended on (R19).
pub const MAX_LINEAGE: usize = 1_000;

/// A type of entry that a snapshot holds the newest of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotType {
    /// What was observed.
    Signal,
    /// A summary of signals.
    Fusion,
    /// A possible action.
    Idea,
    /// A text for it.
    Copy,
    /// How competitors do.
    Benchmark,
    /// A set of instructions.
    Playbook,
}

impl SnapshotType {
    /// All six, in the order they are shown.
    pub const ALL: [SnapshotType; 6] = [
        SnapshotType::Signal,
        SnapshotType::Fusion,
        SnapshotType::Idea,
        SnapshotType::Copy,
        SnapshotType::Benchmark,
        SnapshotType::Playbook,
    ];

    /// The entry type.
    pub fn as_str(self) -> &'static str {
        match self {
            SnapshotType::Signal => "signal",
            SnapshotType::Fusion => "fusion",
            SnapshotType::Idea => "idea",
            SnapshotType::Copy => "copy",
            SnapshotType::Benchmark => "benchmark",
            SnapshotType::Playbook => "playbook",
        }
    }

    /// The key under which a snapshot shows it.
    pub fn shown_as(self) -> &'static str {
        if self == SnapshotType::Signal { "signals" } else { self.as_str() }
    }

    /// The key of its timestamp in `ledgerRecency`.
    pub fn timestamp(self) -> &'static str {
        match self {
            SnapshotType::Signal => "signalsAt",
            SnapshotType::Fusion => "fusionAt",
            SnapshotType::Idea => "ideaAt",
            SnapshotType::Copy => "copyAt",
            SnapshotType::Benchmark => "benchmarkAt",
            SnapshotType::Playbook => "playbookAt",
        }
    }

    /// The snapshot type of an entry type, if it is one of the six.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One value per snapshot type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerType<T>([T; 6]);

impl<T> PerType<T> {
    /// The value of a type.
    pub fn get(&self, kind: SnapshotType) -> &T {
        let [signal, fusion, idea, copy, benchmark, playbook] = &self.0;
        match kind {
            SnapshotType::Signal => signal,
            SnapshotType::Fusion => fusion,
            SnapshotType::Idea => idea,
            SnapshotType::Copy => copy,
            SnapshotType::Benchmark => benchmark,
            SnapshotType::Playbook => playbook,
        }
    }

    /// The value of a type, to change it.
    pub fn get_mut(&mut self, kind: SnapshotType) -> &mut T {
        let [signal, fusion, idea, copy, benchmark, playbook] = &mut self.0;
        match kind {
            SnapshotType::Signal => signal,
            SnapshotType::Fusion => fusion,
            SnapshotType::Idea => idea,
            SnapshotType::Copy => copy,
            SnapshotType::Benchmark => benchmark,
            SnapshotType::Playbook => playbook,
        }
    }
}

/// The time by which the newest entry of a type is found (R20). A record names its own derivation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derivation {
    /// By createdAt: the rule of records that name no derivation.
    Arrival,
    /// By effective time: observedAt, else createdAt.
    #[default]
    EffectiveTime,
}

impl Derivation {
    /// Its number in a record.
    pub fn number(self) -> u8 {
        match self {
            Derivation::Arrival => 1,
            Derivation::EffectiveTime => 2,
        }
    }

    /// The derivation of a number.
    pub fn from_number(number: u64) -> Option<Derivation> {
        [Derivation::Arrival, Derivation::EffectiveTime]
            .into_iter()
            .find(|derivation| u64::from(derivation.number()) == number)
    }
}

/// The position of an entry among others: a time, and at the same time the sequence number (R20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryPosition {
    /// Its effective time, or when the ledger accepted it, as the derivation says.
    pub at: Instant,
    /// Its sequence number.
    pub seq: u64,
}

/// What an entry's lineage reaches, followed to the end. Computed once, when the entry is appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach {
    /// The newest entry of each type that it reaches.
    pub newest: PerType<Option<EntryPosition>>,
    /// An id on the path is not in the ledger.
    pub is_broken: bool,
}

/// The newest counted entry of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// The entry.
    pub entry: Entry,
    /// Its position.
    pub place: EntryPosition,
    /// What it reaches.
    pub reach: Reach,
}

/// The newest counted entry of each type that has one: all that coherence is judged by.
pub type NewestEntries = PerType<Option<Newest>>;

/// Everything a snapshot is derived from, for one tenant and robot at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotFacts {
    /// The robot.
    pub robot_id: RobotId,
    /// The newest counted entry of each type, by the derivation's time.
    pub newest: NewestEntries,
    /// The greatest createdAt of all counted entries, tasks included.
    pub last_at: Option<Timestamp>,
    /// The newest counted tasks, newest first, at most [`MAX_LISTED`].
    pub tasks: Vec<Entry>,
    /// The newest counted playbooks, newest first, at most [`MAX_LISTED`].
    pub playbooks: Vec<Entry>,
    /// The ids of the newest entries and what they reach, newest first, at most [`MAX_LINEAGE`].
    pub lineage: Vec<LedgerId>,
    /// There were more.
    pub is_lineage_cut: bool,
    /// What is listed without payload, because the snapshot would hold too many bytes.
    pub omitted: Option<Omitted>,
}

/// Payloads that a snapshot leaves out: tasks and playbooks beyond its limit are listed by id only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// How many.
    pub count: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// How many bytes of payloads the snapshot holds at most.
    pub limit: u64,
}

impl Omitted {
    /// Adds it to `out` as JSON.
    pub(crate) fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        object.raw("bytes", &self.bytes.to_string()).raw("count", &self.count.to_string());
        object.raw("limit", &self.limit.to_string());
        object.end();
    }
}

/// Which listed payloads fit into a snapshot. The newest entry of each type is always complete; the rest of the limit
/// is for the tasks and playbooks, newest first, up to the first that does not fit.
#[derive(Clone, Debug)]
pub struct PayloadBudget {
    limit: Option<u64>,
    left: u64,
    omitted: Omitted,
}

impl PayloadBudget {
    /// The rest of the rules' limit after the newest entries, whose payloads have this many bytes.
    pub fn new(rules: &CoherenceRules, newest_bytes: u64) -> PayloadBudget {
        let limit = rules.snapshot_bytes;
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(newest_bytes));
        PayloadBudget {
            limit,
            left,
            omitted: Omitted { count: 0, bytes: 0, limit: limit.unwrap_or_default() },
        }
    }

    /// Whether the next listed payload, newest first over both lists, is part of the snapshot.
    pub fn takes(&mut self, bytes: u64) -> bool {
        if self.limit.is_none() || (self.omitted.count == 0 && bytes <= self.left) {
            self.left = self.left.saturating_sub(bytes);
            return true;
        }
        self.omitted.count += 1;
        self.omitted.bytes = self.omitted.bytes.saturating_add(bytes);
        false
    }

    /// What was left out.
    pub fn omitted(&self) -> Option<Omitted> {
        (self.omitted.count > 0).then_some(self.omitted)
    }
}

/// An entry as a snapshot lists it beyond its limit: its id, and when it was accepted.
pub fn outline(
    id: LedgerId,
    seq: Option<Count>,
    tenant_id: Option<TenantId>,
    robot_id: RobotId,
    kind: Name,
    created_at: Timestamp,
) -> Entry {
    Entry {
        id,
        seq,
        tenant_id,
        robot_id,
        module: None,
        source: None,
        kind,
        state: None,
        created_at,
        observed_at: None,
        payload: None,
        lineage: None,
        key: None,
        actor: None,
    }
}

/// The parameters of a snapshot of one robot.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The tenant; `None` if the entries name none.
    pub tenant_id: Option<&'a TenantId>,
    /// The robot.
    pub robot_id: &'a RobotId,
    /// The instant; `None` for all entries.
    pub at: Option<Instant>,
    /// The time by which the newest of a type is found.
    pub derivation: Derivation,
}

/// An entry of a list, with its position by arrival and by the derivation's time.
#[derive(Clone, Copy)]
struct Listed<'a> {
    arrival: EntryPosition,
    judged: EntryPosition,
    entry: &'a Entry,
}

impl SnapshotFacts {
    /// Gathers the facts from a list of entries, oldest first. An entry without `seq` has the position of its place in the list.
    pub fn from_entries(entries: &[Entry], question: &Question<'_>, rules: &CoherenceRules) -> SnapshotFacts {
        let mut visible: Vec<Listed<'_>> = entries
            .iter()
            .enumerate()
            .map(|(position, entry)| {
                let seq = entry.seq.map_or(position as u64, |seq| seq.get());
                let arrival = EntryPosition { at: entry.created_at.instant(), seq };
                let judged = match question.derivation {
                    Derivation::Arrival => arrival,
                    Derivation::EffectiveTime => EntryPosition { at: entry.true_at().instant(), seq },
                };
                Listed { arrival, judged, entry }
            })
            .filter(|Listed { arrival, entry, .. }| {
                let is_ours = question.tenant_id.is_none() || entry.tenant_id.as_ref() == question.tenant_id;
                is_ours && question.at.is_none_or(|at| arrival.at <= at)
            })
            .collect();
        visible.sort_by_key(|listed| listed.arrival);
        let index: BTreeMap<&LedgerId, Listed<'_>> =
            visible.iter().map(|listed| (&listed.entry.id, *listed)).collect();

        let counted = |kind: &'static str| {
            let newest_first = visible.iter().rev();
            newest_first.filter(move |Listed { entry, .. }| {
                entry.robot_id == *question.robot_id && entry.kind.as_str() == kind && rules.counts(entry)
            })
        };
        let listed = |kind| -> Vec<Entry> {
            counted(kind).take(MAX_LISTED).map(|listed| listed.entry.clone()).collect()
        };

        let mut newest = PerType::default();
        let mut reached = BTreeSet::new();
        for kind in SnapshotType::ALL {
            let found = counted(kind.as_str()).max_by_key(|listed| listed.judged);
            if let Some(Listed { arrival, judged, entry }) = found {
                let reach = walk(entry, question.robot_id, &index, &mut reached);
                reached.insert((*arrival, entry.id.clone()));
                *newest.get_mut(kind) = Some(Newest { entry: (*entry).clone(), place: *judged, reach });
            }
        }
        let kinds = SnapshotType::ALL.map(SnapshotType::as_str).into_iter().chain(["task"]);
        let last = kinds.filter_map(|kind| counted(kind).next()).max_by_key(|listed| listed.arrival);
        // Nothing newer than the snapshot itself may be depended on, as a draft on the path might be.
        let last_at = last.map(|last| last.arrival.at);
        reached.retain(|(arrival, _)| Some(arrival.at) <= last_at);
        let is_lineage_cut = reached.len() > MAX_LINEAGE;
        let (mut tasks, mut playbooks) = (listed("task"), listed("playbook"));
        let omitted = cut(&newest, &mut tasks, &mut playbooks, rules);
        SnapshotFacts {
            robot_id: question.robot_id.clone(),
            newest,
            last_at: last.map(|last| last.entry.created_at.clone()),
            tasks,
            playbooks,
            lineage: reached.into_iter().rev().take(MAX_LINEAGE).map(|(_, id)| id).collect(),
            is_lineage_cut,
            omitted,
        }
    }
}

/// Leaves out the payloads that are beyond the limit.
fn cut(
    newest: &NewestEntries,
    tasks: &mut [Entry],
    playbooks: &mut [Entry],
    rules: &CoherenceRules,
) -> Option<Omitted> {
    rules.snapshot_bytes?;
    let bytes = |entry: &Entry| entry.payload.as_ref().map_or(0, |payload| payload.canonical().len() as u64);
    let whole = SnapshotType::ALL.into_iter().filter_map(|kind| newest.get(kind).as_ref());
    let mut budget = PayloadBudget::new(rules, whole.map(|newest| bytes(&newest.entry)).sum());
    let mut listed: Vec<&mut Entry> = tasks.iter_mut().chain(playbooks).collect();
    listed.sort_by_key(|entry| std::cmp::Reverse((entry.created_at.instant(), entry.seq)));
    for entry in listed {
        if !budget.takes(bytes(entry)) {
            let Entry { id, seq, tenant_id, robot_id, kind, created_at, .. } = entry.clone();
            *entry = outline(id, seq, tenant_id, robot_id, kind, created_at);
        }
    }
    budget.omitted()
}

/// Follows an entry's lineage to the end, through this robot's entries; another robot's entry is known but neither
/// used nor followed (R19). A cycle ends where it started.
fn walk(
    from: &Entry,
    robot_id: &RobotId,
    index: &BTreeMap<&LedgerId, Listed<'_>>,
    reached: &mut BTreeSet<(EntryPosition, LedgerId)>,
) -> Reach {
    let mut reach = Reach::default();
    let mut seen: BTreeSet<&LedgerId> = BTreeSet::new();
    let mut open: Vec<&LedgerId> = from.depends_on().iter().collect();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(Listed { arrival, judged, entry }) = index.get(id) else {
            reach.is_broken = true;
            continue;
        };
        if entry.robot_id != *robot_id {
            continue;
        }
        reached.insert((*arrival, (*id).clone()));
        if let Some(kind) = SnapshotType::parse(entry.kind.as_str()) {
            let newest = reach.newest.get_mut(kind);
            *newest = (*newest).max(Some(*judged));
        }
        open.extend(entry.depends_on());
    }
    reach
}

/// The evidence about a robot at an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What it was derived from.
    pub facts: SnapshotFacts,
    /// The greatest createdAt of all counted entries.
    pub snapshot_at: Timestamp,
    /// Whether it is coherent.
    pub coherence: CoherenceVerdict,
}

impl Snapshot {
    /// Derives the snapshot; `None` if no entry of the six types counts (SNAPSHOT_EMPTY).
    pub fn derive(facts: SnapshotFacts, rules: &CoherenceRules) -> Option<Snapshot> {
        SnapshotType::ALL.into_iter().find_map(|kind| facts.newest.get(kind).as_ref())?;
        let snapshot_at = facts.last_at.clone()?;
        let coherence = coherence(&facts.newest, rules);
        Some(Snapshot { facts, snapshot_at, coherence })
    }

    /// When each kind of evidence was last true (R20).
    pub fn recency(&self) -> LedgerRecency {
        let timestamps = SnapshotType::ALL.into_iter().map(|kind| {
            let newest = self.facts.newest.get(kind).as_ref();
            (kind.timestamp().into(), newest.map(|newest| newest.entry.true_at().clone()))
        });
        LedgerRecency::new(timestamps.collect())
    }

    /// The snapshot as a document: the `intelligenceSnapshot` of the contracts.
    ///
    /// # Errors
    /// If an entry nests so deep that the document cannot be read back.
    pub fn document(&self) -> Result<JsonObject, ComposeError> {
        JsonObject::compose("the snapshot", |object| self.write(object))
    }

    fn write(&self, object: &mut ObjectWriter<'_>) {
        object.text("robotId", self.facts.robot_id.as_str());
        object.text("snapshotAt", self.snapshot_at.as_str());
        self.coherence.write(object.key("coherence"));
        self.recency().write(object.key("timestamps"));
        for kind in SnapshotType::ALL {
            match self.facts.newest.get(kind) {
                Some(newest) => newest.entry.write(object.key(kind.shown_as())),
                None => object.key(kind.shown_as()).push_str("null"),
            }
        }
        write_entries(&self.facts.tasks, object.key("tasks"));
        write_entries(&self.facts.playbooks, object.key("playbooks"));
        let lineage = object.key("lineage");
        let mut ids: Vec<&LedgerId> = self.facts.lineage.iter().collect();
        ids.sort_unstable();
        let mut lineage = ObjectWriter::new(lineage);
        lineage.texts("dependsOnLedgerIds", ids);
        lineage.end();
        if let Some(omitted) = &self.facts.omitted {
            omitted.write(object.key("omittedPayloads"));
        }
    }
}

fn write_entries(entries: &[Entry], out: &mut String) {
    out.push('[');
    for (position, entry) in entries.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        entry.write(out);
    }
    out.push(']');
}
