//! Queries: lists with filters and stable cursors, counts, lineage up and down. Written once over [`Reads`], so that both
//! backends answer alike.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId};

use crate::entry::{EXECUTION_EVENT, StoredEntry};
use crate::error::LedgerError;
use crate::position::{Millis, Seq};
use crate::row::EntryRow;
use crate::store::{EntrySelection, LastOfClass};
use crate::view::LogView;

/// Which entries to select; a field that is absent selects all.
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
    /// Of this execution: its events, and the entries it made.
    pub execution_id: Option<ExecutionId>,
    /// Accepted at or after this.
    pub from: Option<Instant>,
    /// Accepted at or before this.
    pub to: Option<Instant>,
    /// Only entries on which no entry of these types depends.
    pub without_children: Vec<Name>,
}

/// The index that finds the entries of a filter without reading others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryIndex {
    /// No index: a range of sequence numbers is scanned.
    None,
    /// Of an execution.
    Execution,
    /// Of a robot, a type and a state.
    Class,
    /// Events of a state.
    Events,
    /// Drafts, of a robot or of all.
    Drafts,
    /// Of one of the types of [`RECEIPT_TYPES`], of all robots.
    Receipts,
}

/// The types of receipts and records, which are listed of all robots together.
const RECEIPT_TYPES: [&str; 3] = ["execution_record", "reported_receipt", "run_receipt"];
/// The same as a condition, which is the one of the index.
pub(crate) const IS_RECEIPT: &str = "kind IN ('execution_record', 'reported_receipt', 'run_receipt')";

/// The state in which an entry waits for a person.
pub(crate) const DRAFT: &str = "draft";

impl Filter {
    pub(crate) fn index(&self) -> EntryIndex {
        let is = |name: &Option<Name>, text| name.as_ref().is_some_and(|name| name.as_str() == text);
        match () {
            () if self.execution_id.is_some() => EntryIndex::Execution,
            () if self.robot_id.is_some() && self.kind.is_some() && self.state.is_some() => EntryIndex::Class,
            () if is(&self.kind, EXECUTION_EVENT) && self.state.is_some() => EntryIndex::Events,
            () if is(&self.state, DRAFT) => EntryIndex::Drafts,
            () if self.robot_id.is_none() && RECEIPT_TYPES.iter().any(|kind| is(&self.kind, kind)) => {
                EntryIndex::Receipts
            }
            () => EntryIndex::None,
        }
    }

    /// Whether it selects the events of all robots and states.
    fn is_all_events(&self) -> bool {
        let is_of_events = self.kind.as_ref().is_some_and(|kind| kind.as_str() == EXECUTION_EVENT);
        is_of_events && self.robot_id.is_none() && self.state.is_none() && self.execution_id.is_none()
    }

    /// Whether the robot's entries are found class by class, because each type and state of a robot has an index and all of
    /// them together have none. A module in a filter without a type could match none of the robot's entries, so such a
    /// filter scans a bounded range instead.
    fn is_by_class(&self) -> bool {
        let is_whole_class = self.module.is_none() && self.without_children.is_empty();
        self.robot_id.is_some() && self.index() == EntryIndex::None && (self.kind.is_some() || is_whole_class)
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In the order of acceptance.
    #[default]
    OldestFirst,
    /// The newest first.
    NewestFirst,
}

/// The position where a list continues. Entries never move, so it stays valid permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(Seq);

impl Cursor {
    /// After (or, newest first, before) this sequence number.
    pub fn after(seq: Seq) -> Self {
        Cursor(seq)
    }

    /// The sequence number.
    pub fn seq(self) -> Seq {
        self.0
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

/// One page of a list. It may hold fewer entries than the limit, even zero, and still not be the last: a page scans a bounded
/// number of entries.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryPage {
    /// The entries, in the requested order.
    pub entries: Vec<StoredEntry>,
    /// Where the list continues; absent on the last page.
    pub next: Option<Cursor>,
}

/// A stored checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// How many entries the log had.
    pub size: u64,
    /// The root of its tree.
    pub root: Sha256,
    /// The signed note.
    pub note: String,
}

/// The direction in which a lineage is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the entry's dependencies.
    Up,
    /// To the entries that depend on it.
    Down,
}

/// An entry of a lineage.
#[derive(Clone, Debug, PartialEq)]
pub struct LineageEntry {
    /// How many steps away, at least 1.
    pub distance: usize,
    /// The entry.
    pub entry: StoredEntry,
}

/// The entries of a lineage, nearest first.
#[derive(Clone, Debug, PartialEq)]
pub struct LineageEntries {
    /// The entries.
    pub entries: Vec<LineageEntry>,
    /// A limit ended the search before the lineage did.
    pub is_cut: bool,
}

impl LogView<'_> {
    /// A page of a list.
    pub fn list(
        &mut self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<EntryPage, LedgerError> {
        if limit == 0 || limit > self.limits.page_entries {
            return Err(LedgerError::Beyond {
                what: "the page's size",
                found: limit,
                limit: self.limits.page_entries,
            });
        }
        let newest_first = order == Order::NewestFirst;
        let (low, high) = self.range(filter, newest_first, cursor)?;
        if low > high {
            return Ok(EntryPage { entries: Vec::new(), next: None });
        }
        let is_plain = *filter == Filter { from: filter.from, to: filter.to, ..Filter::default() };
        // An older schema lacks some of the indexes.
        let index = match filter.index() {
            EntryIndex::Events | EntryIndex::Drafts | EntryIndex::Receipts
                if self.reads.check_schema().is_err() =>
            {
                EntryIndex::None
            }
            index => index,
        };
        let everything = EntrySelection { filter, index, low, high, newest_first, limit };
        let merged = self.merged_seqs(&everything)?;
        let is_found = index != EntryIndex::None || is_plain || merged.is_some();
        let scan = if is_found { u64::MAX } else { self.limits.page_scan as u64 };
        let end = if newest_first {
            low.max(Seq::new(high.get().saturating_sub(scan - 1)).unwrap_or(low))
        } else {
            high.min(Seq::new(low.get().saturating_add(scan - 1).min(Seq::MAX.get())).unwrap_or(high))
        };
        let (from, to) = if newest_first { (end, high) } else { (low, end) };
        let rows = match merged {
            Some(seqs) => self.rows_in_order(&seqs)?,
            None => self.reads.select(self.head, &EntrySelection { low: from, high: to, ..everything })?,
        };
        let reached = match rows.last() {
            Some(last) if rows.len() == limit => last.entry.seq,
            _ => end,
        };
        let is_last = if newest_first { reached <= low } else { reached >= high };
        let next = (!is_last).then_some(Cursor(reached));
        Ok(EntryPage { entries: rows.into_iter().map(|row| row.entry).collect(), next })
    }

    /// The lowest and highest sequence number that a filter and a cursor allow.
    fn range(
        &mut self,
        filter: &Filter,
        newest_first: bool,
        cursor: Option<Cursor>,
    ) -> Result<(Seq, Seq), LedgerError> {
        let (mut low, mut high) = (Seq::ZERO.next(), self.head.last_seq());
        if let Some(to) = filter.to {
            high = high.min(self.seq_at(Millis::floor(to))?);
        }
        if let Some(from) = filter.from {
            // Accepted at whole milliseconds: at or after `from` is after the last millisecond before it.
            let before = Instant::from_unix_nanos(from.unix_nanos() - 1);
            low = low.max(self.seq_at(Millis::floor(before))?.next());
        }
        match cursor {
            Some(Cursor(seq)) if newest_first => high = high.min(seq.previous()),
            Some(Cursor(seq)) => low = low.max(seq.next()),
            None => {}
        }
        Ok((low, high))
    }

    /// The sequence numbers of a page whose entries no single index has in order, merged from the indexes of their types and
    /// states; `None` if there are none, or too many.
    fn merged_seqs(&mut self, selection: &EntrySelection<'_>) -> Result<Option<Vec<Seq>>, LedgerError> {
        let filter = selection.filter;
        let mut seqs = Vec::new();
        if let Some(robot) = filter.robot_id.as_ref().filter(|_| filter.is_by_class()) {
            return self.reads.merged_seqs(self.head, robot, selection, self.limits.list_classes);
        } else if filter.is_all_events() && self.reads.check_schema().is_ok() {
            for state in ExecutionState::ALL {
                #[expect(clippy::expect_used, reason = "a state of an event is a name by its contract")]
                let state = Name::parse(state.as_str()).expect("is a name");
                let filter = Filter { state: Some(state), ..filter.clone() };
                let selection =
                    EntrySelection { filter: &filter, index: EntryIndex::Events, ..selection.clone() };
                seqs.extend(self.reads.select_seqs(self.head, &selection)?);
            }
        } else {
            return Ok(None);
        }
        seqs.sort_unstable();
        if selection.newest_first {
            seqs.reverse();
        }
        seqs.truncate(selection.limit);
        Ok(Some(seqs))
    }

    /// The entries of these sequence numbers, in their order.
    fn rows_in_order(&mut self, seqs: &[Seq]) -> Result<Vec<EntryRow>, LedgerError> {
        let found = self.reads.by_seqs(self.head, seqs)?;
        let mut rows: BTreeMap<Seq, EntryRow> = found.into_iter().map(|row| (row.entry.seq, row)).collect();
        let missing = |seq: &Seq| LedgerError::Damaged {
            place: self.head.tenant_id.to_string(),
            seq: Some(*seq),
            what: format!("an index names entry {seq}, which is missing"),
        };
        seqs.iter().map(|seq| rows.remove(seq).ok_or_else(|| missing(seq))).collect()
    }

    /// How many entries after a place there are of a filter that an index serves.
    pub fn count(&mut self, filter: &Filter, after: Seq) -> Result<u64, LedgerError> {
        self.reads.check_schema()?;
        let (low, high) = (after.next(), self.head.last_seq());
        let index = filter.index();
        self.reads
            .count(self.head, &EntrySelection { filter, index, low, high, newest_first: false, limit: 0 })
    }

    /// The last entry of each type of a robot, by type, and whether there are more types than are returned: a robot has more than
    /// the limit, or more types and states than are read, and then the type that was reached is left out.
    pub fn last_of_types(
        &mut self,
        robot: &RobotId,
        limit: usize,
    ) -> Result<(Vec<StoredEntry>, bool), LedgerError> {
        let most = self.limits.list_classes;
        let classes = self.reads.last_of_classes(self.head, robot, most.saturating_add(1))?;
        let is_cut = classes.len() > most;
        let mut last_of_kinds: BTreeMap<String, Seq> = BTreeMap::new();
        for LastOfClass { kind, seq } in classes {
            let last = last_of_kinds.entry(kind).or_insert(seq);
            *last = seq.max(*last);
        }
        if is_cut {
            // A later state of this type may have a newer entry.
            last_of_kinds.pop_last();
        }
        let has_more = is_cut || last_of_kinds.len() > limit;
        let seqs: Vec<Seq> = last_of_kinds.into_values().take(limit).collect();
        let rows = self.rows_in_order(&seqs)?;
        Ok((rows.into_iter().map(|row| row.entry).collect(), has_more))
    }

    /// The dependencies or dependents of an entry, within a limit; `None` if there is no such entry.
    pub fn lineage(
        &mut self,
        id: &LedgerId,
        direction: Direction,
        depth: usize,
    ) -> Result<Option<LineageEntries>, LedgerError> {
        if depth > self.limits.lineage_depth {
            let limit = self.limits.lineage_depth;
            return Err(LedgerError::Beyond { what: "the lineage's depth", found: depth, limit });
        }
        let Some(start) = self.reads.by_id(self.head, id)? else { return Ok(None) };
        let mut seen = BTreeSet::from([start.entry.seq]);
        let mut found: Vec<(usize, Seq)> = Vec::new();
        let mut level = vec![start.entry.seq];
        let mut is_cut = false;
        for distance in 1..=depth {
            let mut next = Vec::new();
            for seq in level {
                let room = self.limits.lineage_entries.saturating_sub(found.len());
                let around = match direction {
                    Direction::Up => self.reads.parents(self.head, seq)?,
                    // Those that are known already do not hide one that is not.
                    Direction::Down => self.reads.children(self.head, seq, room + 1 + seen.len())?,
                };
                for relative in around {
                    if !seen.insert(relative) {
                        continue;
                    }
                    if found.len() >= self.limits.lineage_entries {
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
                    Direction::Up => self.reads.parents(self.head, seq)?,
                    Direction::Down => self.reads.children(self.head, seq, seen.len() + 1)?,
                };
                is_cut |= further.iter().any(|relative| !seen.contains(relative));
            }
        }
        let seqs: Vec<Seq> = found.iter().map(|(_, seq)| *seq).collect();
        let rows = self.rows_in_order(&seqs)?;
        let entries = found
            .into_iter()
            .zip(rows)
            .map(|((distance, _), row)| LineageEntry { distance, entry: row.entry });
        Ok(Some(LineageEntries { entries: entries.collect(), is_cut }))
    }

    /// The last entry accepted at or before a time. Time never goes back within a log, so a binary search finds it without an index.
    pub(crate) fn seq_at(&mut self, at: Millis) -> Result<Seq, LedgerError> {
        if at >= self.head.last_at {
            return Ok(self.head.last_seq());
        }
        let (mut before, mut after) = (0, self.head.last_seq().get());
        while before < after {
            let middle = before + (after - before).div_ceil(2);
            if self.reads.created_at(self.head, Seq::new(middle).unwrap_or(Seq::MAX))? > at {
                after = middle - 1;
            } else {
                before = middle;
            }
        }
        Ok(Seq::new(before).unwrap_or(Seq::MAX))
    }
}
