//! What can be asked of the ledger: lists with filters and stable cursors, lineage up and down, the facts a snapshot
//! is derived from. Written once over [`Reads`], so that both backends answer alike.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{Count, ExecutionId, LedgerId, Literal, Name, RobotId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{
    self, Derivation, EntryPosition, MAX_LINEAGE, MAX_LISTED, Newest, PayloadBudget, PerType, SnapshotFacts,
    SnapshotType,
};

use crate::entry::{EXECUTION_EVENT, Stored};
use crate::error::LedgerError;
use crate::limits::Limits;
use crate::position::{Millis, Seq};
use crate::reach::Effective;
use crate::row::{EntryRow, LineageNode, Outline};
use crate::store::{Head, Reads, RobotKind, Selection};

/// Which entries are wanted; what is absent is not asked about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Of this robot.
    pub robot_id: Option<RobotId>,
    /// Of this type.
    pub kind: Option<Name>,
    /// In this state.
    pub state: Option<Name>,
    /// By this module.
    pub module: Option<Name>,
    /// Of this execution: its events, and what it made.
    pub execution_id: Option<ExecutionId>,
    /// Taken at or after this.
    pub from: Option<Instant>,
    /// Taken at or before this.
    pub to: Option<Instant>,
    /// On which no entry of this type rests.
    pub without_child: Option<Name>,
}

/// The index that finds the entries of a filter without looking at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// There is none: a range of places is looked through.
    None,
    /// Of an execution.
    Execution,
    /// Of a robot, a type and a state.
    Class,
    /// Events of a state.
    Events,
    /// Drafts, of a robot or of all.
    Drafts,
}

/// The state in which an entry waits for a person.
pub(crate) const DRAFT: &str = "draft";

impl Filter {
    pub(crate) fn index(&self) -> Index {
        let is = |name: &Option<Name>, text| name.as_ref().is_some_and(|name| name.as_str() == text);
        match () {
            () if self.execution_id.is_some() => Index::Execution,
            () if self.robot_id.is_some() && self.kind.is_some() && self.state.is_some() => Index::Class,
            () if is(&self.kind, EXECUTION_EVENT) && self.state.is_some() => Index::Events,
            () if is(&self.state, DRAFT) => Index::Drafts,
            () => Index::None,
        }
    }

    /// The states that the filter is asked for one by one, because each of them has an index and all together have none.
    fn states(&self, reads: &mut dyn Reads, head: &Head) -> Result<Option<Vec<Name>>, LedgerError> {
        let (None, None, Some(kind)) = (&self.state, &self.execution_id, &self.kind) else { return Ok(None) };
        let named = |state: &str| {
            Name::parse(state).map_err(|_| LedgerError::Damaged {
                place: head.tenant_id.to_string(),
                seq: None,
                what: "a state cannot be read back".to_owned(),
            })
        };
        if let Some(robot) = &self.robot_id {
            let (of, mut states, mut state) =
                (RobotKind { robot, kind: kind.as_str() }, Vec::new(), String::new());
            while let Some(next) = reads.state_after(head, &of, &state)? {
                states.push(named(&next)?);
                state = next;
            }
            return Ok(Some(states));
        }
        if kind.as_str() != EXECUTION_EVENT || reads.check_schema().is_err() {
            return Ok(None);
        }
        ExecutionState::ALL.iter().map(|state| named(state.as_str())).collect::<Result<_, _>>().map(Some)
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were taken.
    #[default]
    OldestFirst,
    /// The last one first.
    NewestFirst,
}

/// Where a list goes on. Entries never move, so it stays good for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(Seq);

impl Cursor {
    /// After (or, newest first, before) this place.
    pub fn after(seq: Seq) -> Self {
        Cursor(seq)
    }

    /// Reads a cursor back from its text.
    pub fn parse(text: &str) -> Result<Self, LedgerError> {
        let number = text.strip_prefix("seq-").and_then(|digits| digits.parse().ok());
        let seq = number.and_then(Seq::new).filter(|seq| format!("seq-{seq}") == text);
        seq.map(Cursor).ok_or_else(|| LedgerError::BadCursor { cursor: text.chars().take(60).collect() })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seq-{}", self.0)
    }
}

/// One page of a list. It may hold fewer entries than asked for, even none, and still go on: a page looks at a
/// bounded number of entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The entries, in the order asked for.
    pub entries: Vec<Stored>,
    /// Where it goes on; absent at the end.
    pub next: Option<Cursor>,
}

/// A checkpoint that the ledger keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// How many entries the log had.
    pub size: u64,
    /// The root of its tree.
    pub root: Sha256,
    /// The signed note.
    pub note: String,
}

/// Which way a lineage is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To what the entry rests on.
    Up,
    /// To what rests on the entry.
    Down,
}

/// An entry met on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    /// How many steps away, at least 1.
    pub distance: usize,
    /// The entry.
    pub entry: Stored,
}

/// What a lineage question found, nearest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Lineage {
    /// The entries.
    pub entries: Vec<Relative>,
    /// A bound ended the search before the lineage did.
    pub is_cut: bool,
}

pub(crate) fn list(
    reads: &mut dyn Reads,
    head: &Head,
    filter: &Filter,
    order: Order,
    cursor: Option<Cursor>,
    limit: usize,
    limits: &Limits,
) -> Result<Page, LedgerError> {
    if limit == 0 || limit > limits.page_entries {
        return Err(LedgerError::Beyond {
            what: "the page's size",
            found: limit,
            limit: limits.page_entries,
        });
    }
    let mut low = Seq::ZERO.next();
    let mut high = head.last_seq();
    if let Some(to) = filter.to {
        high = high.min(seq_at(reads, head, Millis::floor(to))?);
    }
    if let Some(from) = filter.from {
        // Taken at whole milliseconds: at or after `from` is after the last millisecond before it.
        let before = Instant::from_unix_nanos(from.unix_nanos() - 1);
        low = low.max(seq_at(reads, head, Millis::floor(before))?.next());
    }
    let newest_first = order == Order::NewestFirst;
    match cursor {
        Some(Cursor(seq)) if newest_first => high = high.min(seq.previous()),
        Some(Cursor(seq)) => low = low.max(seq.next()),
        None => {}
    }
    if low > high {
        return Ok(Page { entries: Vec::new(), next: None });
    }
    let states = filter.states(reads, head)?;
    let is_plain = *filter == Filter { from: filter.from, to: filter.to, ..Filter::default() };
    // An older schema has not all of the indexes.
    let index = match filter.index() {
        Index::Events | Index::Drafts if reads.check_schema().is_err() => Index::None,
        index => index,
    };
    let is_found = index != Index::None || is_plain || states.is_some();
    let scan = if is_found { u64::MAX } else { limits.page_scan as u64 };
    let end = if newest_first {
        low.max(Seq::new(high.get().saturating_sub(scan - 1)).unwrap_or(low))
    } else {
        high.min(Seq::new(low.get().saturating_add(scan - 1).min(Seq::MAX.get())).unwrap_or(high))
    };
    let (from, to) = if newest_first { (end, high) } else { (low, end) };
    let select = |reads: &mut dyn Reads, filter: &Filter, index| {
        reads.select(head, &Selection { filter, index, low: from, high: to, newest_first, limit })
    };
    let rows = match states {
        None => select(reads, filter, index)?,
        Some(states) => {
            let mut rows = Vec::new();
            for state in states {
                let filter = Filter { state: Some(state), ..filter.clone() };
                rows.extend(select(reads, &filter, filter.index())?);
                rows.sort_unstable_by_key(|row| row.entry.seq);
                if newest_first {
                    rows.reverse();
                }
                rows.truncate(limit);
            }
            rows
        }
    };
    let reached = match rows.last() {
        Some(last) if rows.len() == limit => last.entry.seq,
        _ => end,
    };
    let is_over = if newest_first { reached <= low } else { reached >= high };
    let next = (!is_over).then_some(Cursor(reached));
    Ok(Page { entries: rows.into_iter().map(|row| row.entry).collect(), next })
}

/// How many entries there are of a filter that an index serves.
pub(crate) fn count(reads: &mut dyn Reads, head: &Head, filter: &Filter) -> Result<u64, LedgerError> {
    reads.check_schema()?;
    let (low, high) = (Seq::ZERO.next(), head.last_seq());
    let index = filter.index();
    reads.count(head, &Selection { filter, index, low, high, newest_first: false, limit: 0 })
}

/// The entry that came last of each type of a robot, by type, and whether there are more types than were looked at.
pub(crate) fn last_of_types(
    reads: &mut dyn Reads,
    head: &Head,
    robot: &RobotId,
    limit: usize,
) -> Result<(Vec<Stored>, bool), LedgerError> {
    let (mut found, mut kind) = (Vec::new(), String::new());
    while let Some(next) = reads.kind_after(head, robot, &kind)? {
        if found.len() >= limit {
            return Ok((found, true));
        }
        let of = RobotKind { robot, kind: &next };
        let (mut last, mut state) = (None, String::new());
        while let Some(next) = reads.state_after(head, &of, &state)? {
            last = last.max(reads.last_seqs(head, &of, &next, head.last_seq(), 1)?.first().copied());
            state = next;
        }
        found.extend(
            last.map_or(Ok(Vec::new()), |seq| reads.by_seqs(head, &[seq]))?.into_iter().map(|row| row.entry),
        );
        kind = next;
    }
    Ok((found, false))
}

pub(crate) fn lineage(
    reads: &mut dyn Reads,
    head: &Head,
    id: &LedgerId,
    direction: Direction,
    depth: usize,
    limits: &Limits,
) -> Result<Option<Lineage>, LedgerError> {
    if depth > limits.lineage_depth {
        let limit = limits.lineage_depth;
        return Err(LedgerError::Beyond { what: "the lineage's depth", found: depth, limit });
    }
    let Some(start) = reads.by_id(head, id)? else { return Ok(None) };
    let mut seen = BTreeSet::from([start.entry.seq]);
    let mut found: Vec<(usize, Seq)> = Vec::new();
    let mut level = vec![start.entry.seq];
    let mut is_cut = false;
    for distance in 1..=depth {
        let mut next = Vec::new();
        for seq in level {
            let room = limits.lineage_entries.saturating_sub(found.len());
            let around = match direction {
                Direction::Up => reads.parents(head, seq)?,
                Direction::Down => reads.children(head, seq, room + 1)?,
            };
            for relative in around {
                if !seen.insert(relative) {
                    continue;
                }
                if found.len() >= limits.lineage_entries {
                    is_cut = true;
                    break;
                }
                found.push((distance, relative));
                next.push(relative);
            }
        }
        level = next;
        if level.is_empty() {
            break;
        }
    }
    if !is_cut {
        for seq in level {
            let further = match direction {
                Direction::Up => reads.parents(head, seq)?,
                Direction::Down => reads.children(head, seq, limits.lineage_entries)?,
            };
            is_cut |= further.iter().any(|relative| !seen.contains(relative));
        }
    }
    let seqs: Vec<Seq> = found.iter().map(|(_, seq)| *seq).collect();
    let mut rows: BTreeMap<Seq, EntryRow> =
        reads.by_seqs(head, &seqs)?.into_iter().map(|row| (row.entry.seq, row)).collect();
    let entries = found
        .into_iter()
        .filter_map(|(distance, seq)| rows.remove(&seq).map(|row| Relative { distance, entry: row.entry }));
    Ok(Some(Lineage { entries: entries.collect(), is_cut }))
}

/// What a snapshot of one robot is derived from (R17): a bounded number of look-ups, whatever the log's length.
pub(crate) fn facts(
    reads: &mut dyn Reads,
    head: &Head,
    robot: &RobotId,
    at: Option<Instant>,
    rules: &CoherenceRules,
) -> Result<SnapshotFacts, LedgerError> {
    let high = match at {
        Some(at) => seq_at(reads, head, Millis::floor(at))?,
        None => head.last_seq(),
    };
    facts_up_to(reads, head, robot, high, rules, Derivation::default())
}

/// The same, from the entries up to a place, the newest of each type by the derivation's time (R20).
pub(crate) fn facts_up_to(
    reads: &mut dyn Reads,
    head: &Head,
    robot: &RobotId,
    high: Seq,
    rules: &CoherenceRules,
    derivation: Derivation,
) -> Result<SnapshotFacts, LedgerError> {
    reads.check_schema()?;
    let listed = |kind| if kind == SnapshotType::Playbook { MAX_LISTED } else { 1 };
    let types = SnapshotType::ALL.map(|kind| (kind.as_str(), listed(kind)));
    let wanted: Vec<(&'static str, usize)> = types.into_iter().chain([("task", MAX_LISTED)]).collect();
    let latest = reads.latest(head, robot, &wanted, &rules.uncounted_states, high)?;
    // The first of a list by arrival is looked at even where the newest by effective time is another.
    let all: BTreeSet<Seq> = latest
        .iter()
        .flat_map(|latest| latest.last.first().into_iter().chain(&latest.newest))
        .copied()
        .collect();
    let found = reads.by_seqs(head, &all.into_iter().collect::<Vec<_>>())?;
    let found: BTreeMap<Seq, EntryRow> = found.into_iter().map(|row| (row.entry.seq, row)).collect();
    let mut rows = Vec::new();
    let mut playbooks: &[Seq] = &[];
    for (kind, latest) in SnapshotType::ALL.into_iter().zip(&latest) {
        let newest = match derivation {
            Derivation::Arrival => latest.last.first().copied(),
            Derivation::EffectiveTime => {
                let candidates = latest.newest.iter().filter_map(|seq| found.get(seq));
                candidates.map(|row| row.entry.effective()).max().map(|newest| newest.seq)
            }
        };
        rows.extend(newest.and_then(|seq| found.get(&seq)).map(|row| (kind, row.clone())));
        if kind == SnapshotType::Playbook {
            playbooks = &latest.last;
        }
    }
    let tasks: &[Seq] = latest.last().map_or(&[], |tasks| &tasks.last);
    let newest_bytes = rows.iter().map(|(_, row)| row.entry.content.payload.len() as u64).sum();
    let mut listed = Lists { robot, found: &found, budget: PayloadBudget::new(rules, newest_bytes) };
    let [tasks, playbooks] = listed.read(reads, head, [(TASK, tasks), (PLAYBOOK, playbooks)])?;
    let omitted = listed.budget.omitted();
    let last = latest.iter().filter_map(|latest| latest.last.first()).max().and_then(|seq| found.get(seq));
    let used = |row: &EntryRow, kind| match derivation {
        Derivation::Arrival => row.derived.reach.get(kind),
        Derivation::EffectiveTime => row.derived.used.get(kind).map(|used| used.seq),
    };
    let reached: BTreeSet<Seq> =
        rows.iter().flat_map(|(_, row)| SnapshotType::ALL.map(|kind| used(row, kind))).flatten().collect();
    // Most of what the newest entries rest on are the newest entries.
    let (near, far): (Vec<Seq>, Vec<Seq>) = reached.into_iter().partition(|seq| found.contains_key(seq));
    let far = reads.by_seqs(head, &far)?;
    let judged = |row: &EntryRow| match derivation {
        Derivation::Arrival => EntryPosition { at: row.entry.created_at.instant(), seq: row.entry.seq.get() },
        Derivation::EffectiveTime => {
            let Effective { at, seq } = row.entry.effective();
            EntryPosition { at, seq: seq.get() }
        }
    };
    let places: BTreeMap<Seq, EntryPosition> = near
        .iter()
        .filter_map(|seq| found.get(seq))
        .chain(&far)
        .map(|row| (row.entry.seq, judged(row)))
        .collect();
    let (lineage, is_lineage_cut) = allowed_lineage(reads, head, robot, rows.iter().map(|(_, row)| row))?;
    let mut newest: PerType<Option<Newest>> = PerType::default();
    for (kind, row) in rows {
        let mut reach = snapshot::Reach::default();
        for upstream in SnapshotType::ALL {
            *reach.newest.get_mut(upstream) = used(&row, upstream).and_then(|seq| places.get(&seq).copied());
        }
        *newest.get_mut(kind) = Some(Newest { entry: row.entry.to_entry(), place: judged(&row), reach });
    }
    Ok(SnapshotFacts {
        robot_id: robot.clone(),
        newest,
        last_at: last.map(|row| row.entry.created_at.timestamp()),
        tasks,
        playbooks,
        lineage,
        is_lineage_cut,
        omitted,
    })
}

const TASK: Literal = Literal::new("task");
const PLAYBOOK: Literal = Literal::new("playbook");

/// The lists of a snapshot, of which the payloads beyond its bound are not read.
struct Lists<'a> {
    robot: &'a RobotId,
    found: &'a BTreeMap<Seq, EntryRow>,
    budget: PayloadBudget,
}

impl Lists<'_> {
    fn read(
        &mut self,
        reads: &mut dyn Reads,
        head: &Head,
        lists: [(Literal, &[Seq]); 2],
    ) -> Result<[Vec<Entry>; 2], LedgerError> {
        let seqs: BTreeSet<Seq> = lists.iter().flat_map(|(_, seqs)| seqs.iter()).copied().collect();
        let mut outlines: Vec<Outline> =
            seqs.iter().filter_map(|seq| self.found.get(seq)).map(Outline::from).collect();
        let far: Vec<Seq> = seqs.into_iter().filter(|seq| !self.found.contains_key(seq)).collect();
        outlines.extend(reads.outlines(head, &far)?);
        outlines.sort_unstable_by_key(|outline| std::cmp::Reverse(outline.seq));
        let (whole, cut): (Vec<Outline>, Vec<Outline>) =
            outlines.into_iter().partition(|outline| self.budget.takes(outline.payload_bytes));
        let far: Vec<Seq> =
            whole.iter().map(|outline| outline.seq).filter(|seq| !self.found.contains_key(seq)).collect();
        let far = reads.by_seqs(head, &far)?;
        let rows: BTreeMap<Seq, &EntryRow> =
            far.iter().chain(self.found.values()).map(|row| (row.entry.seq, row)).collect();
        let cut: BTreeMap<Seq, Outline> = cut.into_iter().map(|outline| (outline.seq, outline)).collect();
        Ok(lists.map(|(kind, seqs)| {
            let entry = |seq: &Seq| match (cut.get(seq), rows.get(seq)) {
                (Some(outline), _) => Some(snapshot::outline(
                    outline.id.clone(),
                    Count::new(seq.get()),
                    Some(head.tenant_id.clone()),
                    self.robot.clone(),
                    Name::from(kind),
                    outline.created_at.timestamp(),
                )),
                (None, row) => row.map(|row| row.entry.to_entry()),
            };
            seqs.iter().filter_map(entry).collect()
        }))
    }
}

/// The last place taken at or before a time. Time never goes back within a log, so halving finds it without an index.
fn seq_at(reads: &mut dyn Reads, head: &Head, at: Millis) -> Result<Seq, LedgerError> {
    if at >= head.last_at {
        return Ok(head.last_seq());
    }
    let (mut before, mut after) = (0, head.last_seq().get());
    while before < after {
        let middle = before + (after - before).div_ceil(2);
        if reads.created_at(head, Seq::new(middle).unwrap_or(Seq::MAX))? > at {
            after = middle - 1;
        } else {
            before = middle;
        }
    }
    Ok(Seq::new(before).unwrap_or(Seq::MAX))
}

/// The newest entries and what they rest on, newest first, at most [`MAX_LINEAGE`] (R19). An entry rests only on
/// older ones, so taking the newest open one each time meets them in order, and the bound ends the search.
fn allowed_lineage<'a>(
    reads: &mut dyn Reads,
    head: &Head,
    robot: &RobotId,
    newest: impl Iterator<Item = &'a EntryRow>,
) -> Result<(Vec<LedgerId>, bool), LedgerError> {
    let mut open: BTreeMap<Seq, (LedgerId, Vec<LedgerId>)> = newest
        .map(|row| (row.entry.seq, (row.entry.id.clone(), row.entry.content.depends_on.clone())))
        .collect();
    let mut asked: BTreeSet<LedgerId> = open.values().map(|(id, _)| id.clone()).collect();
    let mut lineage = Vec::new();
    while let Some((_, (id, depends_on))) = open.pop_last() {
        if lineage.len() >= MAX_LINEAGE {
            return Ok((lineage, true));
        }
        lineage.push(id);
        if depends_on.iter().all(|id| asked.contains(id)) {
            continue;
        }
        // What the other open ones rest on is asked for with it: fewer questions, each of bounded size.
        let open_ones = open.values().flat_map(|(_, depends_on)| depends_on);
        let unknown: Vec<LedgerId> = depends_on
            .iter()
            .chain(open_ones.take(MAX_LINEAGE))
            .filter(|id| asked.insert((*id).clone()))
            .cloned()
            .collect();
        for LineageNode { seq, id, robot_id, depends_on, .. } in reads.nodes(head, &unknown)? {
            if robot_id == *robot {
                open.insert(seq, (id, depends_on));
            }
        }
    }
    Ok((lineage, false))
}
