//! The facts that a snapshot is derived from (R17), in a bounded number of look-ups whatever the log's length. Written once
//! over [`Reads`], so that both backends answer alike.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::entry::Entry;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{Count, LedgerId, Literal, Name, RobotId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{
    self, Derivation, EntryPosition, MAX_LINEAGE, MAX_LISTED, Newest, NewestEntries, PayloadBudget,
    SnapshotFacts, SnapshotType,
};

use crate::error::LedgerError;
use crate::position::{Millis, Seq};
use crate::proposed::Position;
use crate::reach::EffectiveTime;
use crate::row::{EntryRow, LineageNode, Outline};
use crate::store::{Head, LatestEntries, Reads};
use crate::view::LogView;

impl LogView<'_> {
    /// The facts that a snapshot of one robot is derived from (R17): a bounded number of look-ups, whatever the log's length.
    pub fn facts(
        &mut self,
        robot: &RobotId,
        at: Option<Instant>,
        rules: &CoherenceRules,
    ) -> Result<SnapshotFacts, LedgerError> {
        let high = match at {
            Some(at) => self.seq_at(Millis::floor(at))?,
            None => self.head.last_seq(),
        };
        self.facts_of(robot, high, rules, Derivation::default())
    }

    /// The same, from the entries up to a sequence number if one is given, and the position at which it was read.
    pub fn facts_up_to(
        &mut self,
        robot: &RobotId,
        up_to: Option<Seq>,
        rules: &CoherenceRules,
        derivation: Derivation,
    ) -> Result<(SnapshotFacts, Position), LedgerError> {
        let seq = up_to.unwrap_or(self.head.last_seq()).min(self.head.last_seq());
        let facts = self.facts_of(robot, seq, rules, derivation)?;
        Ok((facts, Position { seq, now: self.clock.judging_time(self.head) }))
    }

    /// The newest entry of each type by effective time, from the entries up to a sequence number if one is given: all that
    /// coherence is judged by, without the lists and the lineage that a snapshot also shows.
    pub fn newest(
        &mut self,
        robot: &RobotId,
        up_to: Option<Seq>,
        rules: &CoherenceRules,
    ) -> Result<NewestEntries, LedgerError> {
        let high = up_to.unwrap_or(self.head.last_seq()).min(self.head.last_seq());
        let wanted = SnapshotType::ALL.map(|kind| (kind.as_str(), 1));
        let LatestRows { latest, found } = self.latest_rows(robot, high, rules, &wanted)?;
        let rows = newest_rows(&latest, &found, Derivation::EffectiveTime);
        self.newest_entries(rows, &found, Derivation::EffectiveTime)
    }

    /// The entries that a snapshot reads of each wanted type, and the rows that may be the newest of one.
    fn latest_rows(
        &mut self,
        robot: &RobotId,
        high: Seq,
        rules: &CoherenceRules,
        wanted: &[(&'static str, usize)],
    ) -> Result<LatestRows, LedgerError> {
        self.reads.check_schema()?;
        let latest = self.reads.latest(self.head, robot, wanted, &rules.uncounted_states, high)?;
        // The first of a list by arrival is read even if the newest by effective time is another.
        let all: BTreeSet<Seq> = latest
            .iter()
            .flat_map(|latest| latest.last.first().into_iter().chain(&latest.newest))
            .copied()
            .collect();
        let found = self.reads.by_seqs(self.head, &all.into_iter().collect::<Vec<_>>())?;
        let found = found.into_iter().map(|row| (row.entry.seq, row)).collect();
        Ok(LatestRows { latest, found })
    }

    /// The same, from the entries up to a sequence number, the newest of each type by the derivation's time (R20).
    fn facts_of(
        &mut self,
        robot: &RobotId,
        high: Seq,
        rules: &CoherenceRules,
        derivation: Derivation,
    ) -> Result<SnapshotFacts, LedgerError> {
        let listed = |kind| if kind == SnapshotType::Playbook { MAX_LISTED } else { 1 };
        let types = SnapshotType::ALL.map(|kind| (kind.as_str(), listed(kind)));
        let wanted: Vec<(&'static str, usize)> = types.into_iter().chain([("task", MAX_LISTED)]).collect();
        let LatestRows { latest, found } = self.latest_rows(robot, high, rules, &wanted)?;
        let rows = newest_rows(&latest, &found, derivation);
        let last_of = |wanted_type: &str| -> &[Seq] {
            let place = wanted.iter().position(|(kind, _)| *kind == wanted_type);
            place.and_then(|place| latest.get(place)).map_or(&[], |latest| &latest.last)
        };
        let (tasks, playbooks) = (last_of(TASK.as_str()), last_of(PLAYBOOK.as_str()));
        let newest_bytes = rows.iter().map(|(_, row)| row.entry.content.payload.len() as u64).sum();
        let mut listed =
            SnapshotLists { robot, found: &found, budget: PayloadBudget::new(rules, newest_bytes) };
        let [tasks, playbooks] =
            listed.read(self.reads, self.head, [(TASK, tasks), (PLAYBOOK, playbooks)])?;
        let omitted = listed.budget.omitted();
        let last =
            latest.iter().filter_map(|latest| latest.last.first()).max().and_then(|seq| found.get(seq));
        let (lineage, is_lineage_cut) = self.allowed_lineage(robot, rows.iter().map(|(_, row)| row))?;
        let newest = self.newest_entries(rows, &found, derivation)?;
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

    /// An entry with what its lineage reaches, to be judged like the newest of a type; `None` if there is no such entry.
    pub fn entry_with_reach(&mut self, id: &LedgerId) -> Result<Option<Newest>, LedgerError> {
        self.reads.check_schema()?;
        let Some(row) = self.reads.by_id(self.head, id)? else { return Ok(None) };
        let any = SnapshotType::Idea;
        let entries = self.newest_entries(vec![(any, row)], &BTreeMap::new(), Derivation::EffectiveTime)?;
        Ok(entries.get(any).clone())
    }

    /// The newest entry of each type, each with the entries that its lineage reaches.
    fn newest_entries(
        &mut self,
        rows: Vec<(SnapshotType, EntryRow)>,
        found: &BTreeMap<Seq, EntryRow>,
        derivation: Derivation,
    ) -> Result<NewestEntries, LedgerError> {
        let used = |row: &EntryRow, kind| match derivation {
            Derivation::Arrival => row.derived.reach.get(kind),
            Derivation::EffectiveTime => row.derived.used.get(kind).map(|used| used.seq),
        };
        let reached: BTreeSet<Seq> = rows
            .iter()
            .flat_map(|(_, row)| SnapshotType::ALL.map(|kind| used(row, kind)))
            .flatten()
            .collect();
        // Most dependencies of the newest entries are newest entries themselves.
        let (near, far): (Vec<Seq>, Vec<Seq>) = reached.into_iter().partition(|seq| found.contains_key(seq));
        let far = self.reads.by_seqs(self.head, &far)?;
        let judged = |row: &EntryRow| match derivation {
            Derivation::Arrival => {
                EntryPosition { at: row.entry.created_at.instant(), seq: row.entry.seq.get() }
            }
            Derivation::EffectiveTime => {
                let EffectiveTime { at, seq } = row.entry.effective();
                EntryPosition { at, seq: seq.get() }
            }
        };
        let places: BTreeMap<Seq, EntryPosition> = near
            .iter()
            .filter_map(|seq| found.get(seq))
            .chain(&far)
            .map(|row| (row.entry.seq, judged(row)))
            .collect();
        let mut newest: NewestEntries = NewestEntries::default();
        for (kind, row) in rows {
            let mut reach = snapshot::Reach::default();
            for upstream in SnapshotType::ALL {
                *reach.newest.get_mut(upstream) =
                    used(&row, upstream).and_then(|seq| places.get(&seq).copied());
            }
            *newest.get_mut(kind) = Some(Newest { entry: row.entry.to_entry(), place: judged(&row), reach });
        }
        Ok(newest)
    }

    /// The newest entries and what they depend on, newest first, at most [`MAX_LINEAGE`] (R19). An entry depends only on
    /// older ones, so taking the newest open one each time visits them in order, and the limit ends the search.
    fn allowed_lineage<'a>(
        &mut self,
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
            // The dependencies of the other open ones are read with it: fewer queries, each of bounded size.
            let open_ones = open.values().flat_map(|(_, depends_on)| depends_on);
            let unknown: Vec<LedgerId> = depends_on
                .iter()
                .chain(open_ones.take(MAX_LINEAGE))
                .filter(|id| asked.insert((*id).clone()))
                .cloned()
                .collect();
            for LineageNode { seq, id, robot_id, depends_on, .. } in self.reads.nodes(self.head, &unknown)? {
                if robot_id == *robot {
                    open.insert(seq, (id, depends_on));
                }
            }
        }
        Ok((lineage, false))
    }
}

/// The rows read of the wanted types, in their order; the six of a snapshot come first.
struct LatestRows {
    latest: Vec<LatestEntries>,
    found: BTreeMap<Seq, EntryRow>,
}

/// The newest row of each type, by the derivation's time.
fn newest_rows(
    latest: &[LatestEntries],
    found: &BTreeMap<Seq, EntryRow>,
    derivation: Derivation,
) -> Vec<(SnapshotType, EntryRow)> {
    let newest = |latest: &LatestEntries| match derivation {
        Derivation::Arrival => found.get(latest.last.first()?),
        Derivation::EffectiveTime => {
            latest.newest.iter().filter_map(|seq| found.get(seq)).max_by_key(|row| row.entry.effective())
        }
    };
    let types = SnapshotType::ALL.into_iter().zip(latest);
    types.filter_map(|(kind, latest)| Some((kind, newest(latest)?.clone()))).collect()
}

const TASK: Literal = Literal::new("task");
const PLAYBOOK: Literal = Literal::new("playbook");

/// The lists of a snapshot, without the payloads beyond its limit.
struct SnapshotLists<'a> {
    robot: &'a RobotId,
    found: &'a BTreeMap<Seq, EntryRow>,
    budget: PayloadBudget,
}

impl SnapshotLists<'_> {
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
