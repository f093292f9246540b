//! Checks that the tables hold exactly what the tree has: every derived column of every entry, edges, tiles, the head
//! and the checkpoints are recomputed and compared, and there may be nothing else.
//!
//! What the entries themselves say is for `crealeph-verify`, which shares no code with this crate. This is the other
//! half: readers find entries by columns and indexes that no hash covers, so those must match the entries.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use tracing::info_span;

use crate::columns::{ColumnSource, ENTRY_COLUMNS};
use crate::error::LedgerError;
use crate::event::recorded_identity;
use crate::ledger::Ledger;
use crate::merkle::{Frontier, TILE_WIDTH, subtree_root};
use crate::position::{Millis, Seq};
use crate::reach::EffectiveTime;
use crate::read::{EntryIndex, Filter, StoredCheckpoint};
use crate::row::{DerivedColumns, EntryClass, EntryRow, LineageNode};
use crate::signed_head::SignedHead;
use crate::store::{EntrySelection, Head, Reads, StrayRow};

/// Entries read in one go.
const PAGE: usize = 500;
/// Lineage ids looked up in one go.
const LOOKUPS: usize = 5_000;

/// How the tables differ from the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditFaultKind {
    /// A value does not match the entries.
    Changed,
    /// A row is missing.
    Missing,
    /// A row that no tree has.
    Extra,
    /// Fewer entries than were signed.
    Truncated,
    /// Another history than the signed one.
    Forked,
    /// Triggers, indexes, policies or privileges are not those that this program creates.
    Schema,
}

/// A stored value that does not match the entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct AuditFault {
    /// The kind of difference.
    pub kind: AuditFaultKind,
    /// The entry it is about, if any.
    pub seq: Option<Seq>,
    /// What does not match, and what to do.
    pub what: String,
}

/// What to do about a value that is computed from the entries, if those are as written.
const REBUILD: &str =
    "the entries are as written: `crealeph ledger export` and `import` into a new ledger compute it again";
/// What to do about rows that readers may have used.
const DISTRUST: &str =
    "what was read since may be based on it: restore a backup, or export and import the log";

impl AuditFault {
    fn changed(seq: Option<Seq>, what: String) -> AuditFault {
        AuditFault { kind: AuditFaultKind::Changed, seq, what: format!("{what}; {REBUILD}") }
    }
}

/// Why an audit stopped: it found something, or could not read.
enum AuditStop {
    Fault(AuditFault),
    Error(LedgerError),
}

impl From<LedgerError> for AuditStop {
    fn from(error: LedgerError) -> Self {
        AuditStop::Error(error)
    }
}

impl Ledger {
    /// Checks the storage itself, and that the tenant's tables match its entries exactly: derived columns,
    /// edges, tiles, the head, checkpoints, no other row, and the schema. A verifier checks the content of the entries,
    /// from an export.
    pub fn audit(&self, tenant: &TenantId) -> Result<Option<AuditFault>, LedgerError> {
        self.audit_reporting(tenant, &mut |_| {})
    }

    /// The same, and reports from time to time up to which entry.
    pub fn audit_reporting(
        &self,
        tenant: &TenantId,
        report: &mut dyn FnMut(Seq),
    ) -> Result<Option<AuditFault>, LedgerError> {
        let _span = info_span!("audit", %tenant).entered();
        self.inner().backend.check_storage()?;
        let keys = &self.inner().keys;
        let fault = self.ask(tenant, |reads, head| {
            let signed = SignedHead::load(keys, &head.origin)?;
            match audit(reads, head, signed, report) {
                Ok(()) => Ok(None),
                Err(AuditStop::Fault(fault)) => Ok(Some(fault)),
                Err(AuditStop::Error(error)) => Err(error),
            }
        })?;
        Ok(fault.flatten())
    }

    /// What [`Ledger::audit`] cannot check in this database, and what would allow it.
    pub fn unchecked(&self, tenant: &TenantId) -> Result<Option<String>, LedgerError> {
        Ok(self.ask(tenant, |reads, _| reads.unchecked())?.flatten())
    }
}

fn audit(
    reads: &mut dyn Reads,
    head: &Head,
    signed: Option<SignedHead>,
    report: &mut dyn FnMut(Seq),
) -> Result<(), AuditStop> {
    let is_older = reads.check_schema().is_err();
    let mut audit = Audit::new(reads.checkpoints(head)?, signed, is_older);
    audit.statements(head)?;
    if let Some(StrayRow { kind, seq, what }) = reads.stray_row(head)? {
        return Err(stray(kind, seq, &what));
    }
    let filter = Filter::default();
    let last = head.last_seq();
    while audit.last < last {
        let low = audit.last.next();
        let selection = EntrySelection {
            filter: &filter,
            index: EntryIndex::None,
            low,
            high: last,
            newest_first: false,
            limit: PAGE,
        };
        let rows = reads.select(head, &selection)?;
        if rows.is_empty() {
            return Err(missing(low));
        }
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(within_lookups(rest));
            audit.entries(reads, head, now)?;
            rest = later;
        }
        report(audit.last);
    }
    audit.end(reads, head)
}

/// How many of the rows are looked at together: at least one.
fn within_lookups(rows: &[EntryRow]) -> usize {
    let mut ids = 0;
    let fits = rows.iter().take_while(|row| {
        ids += row.entry.content.depends_on.len();
        ids <= LOOKUPS
    });
    fits.count().max(1)
}

fn missing(seq: Seq) -> AuditStop {
    let what = format!("entry {seq} is missing; restore a backup");
    AuditStop::Fault(AuditFault { kind: AuditFaultKind::Missing, seq: Some(seq), what })
}

fn stray(kind: AuditFaultKind, seq: Option<Seq>, what: &str) -> AuditStop {
    AuditStop::Fault(AuditFault { kind, seq, what: format!("{what}; {DISTRUST}") })
}

/// The state computed from the entries read so far.
struct Audit {
    last: Seq,
    last_at: Millis,
    frontier: Frontier,
    /// The hashes of each level that do not fill a tile yet.
    open: Vec<Vec<Sha256>>,
    /// How many tiles each level has.
    tiles: Vec<u64>,
    edges: u64,
    /// The effective newest entry of each class.
    newest: BTreeMap<EntryClass, EffectiveTime>,
    /// The ledger is of an earlier version.
    is_older: bool,
    /// The checkpoints that the tree has not reached yet, largest first.
    checkpoints: Vec<StoredCheckpoint>,
    signed: Option<SignedHead>,
}

impl Audit {
    fn new(mut checkpoints: Vec<StoredCheckpoint>, signed: Option<SignedHead>, is_older: bool) -> Audit {
        checkpoints.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.size));
        Audit {
            last: Seq::ZERO,
            last_at: Millis::default(),
            frontier: Frontier::default(),
            open: Vec::new(),
            tiles: Vec::new(),
            edges: 0,
            newest: BTreeMap::new(),
            is_older,
            checkpoints,
            signed,
        }
    }

    /// The checkpoints' columns against their notes, and against the size of the log; and those of the empty log.
    fn statements(&mut self, head: &Head) -> Result<(), AuditStop> {
        for StoredCheckpoint { size, root, note } in &self.checkpoints {
            let stated = format!("{}\n{size}\n{}\n\n", head.origin, STANDARD.encode(root.as_bytes()));
            if !note.starts_with(&stated) {
                let what =
                    format!("the columns of a checkpoint of {size} entries are not what its note says");
                return Err(AuditStop::Fault(AuditFault::changed(None, what)));
            }
        }
        let entries = head.frontier.size();
        let largest = self.checkpoints.first().map(|checkpoint| (checkpoint.size, checkpoint.root));
        let signed = self.signed.as_ref().map(|signed| (signed.size, signed.root));
        if let Some((size, _)) = largest.into_iter().chain(signed).find(|(size, _)| *size > entries) {
            let what = format!(
                "the log ends after entry {entries}, and a checkpoint of {size} entries was signed: it was rolled \
                 back; restore a backup that has them"
            );
            let seq = Seq::new(entries + 1);
            return Err(AuditStop::Fault(AuditFault { kind: AuditFaultKind::Truncated, seq, what }));
        }
        self.compare_signed()
    }

    /// The checkpoints that the tree has reached.
    fn compare_signed(&mut self) -> Result<(), AuditStop> {
        let size = self.frontier.size();
        let mut stated = Vec::new();
        while let Some(checkpoint) = self.checkpoints.pop_if(|checkpoint| checkpoint.size <= size) {
            stated.push(checkpoint.root);
        }
        if let Some(signed) = self.signed.take_if(|signed| signed.size == size) {
            stated.push(signed.root);
        }
        match stated.iter().all(|root| *root == self.frontier.root()) {
            true => Ok(()),
            false => {
                let what = format!(
                    "a checkpoint of {size} entries states another history than the log has; compare it with one \
                     that was kept elsewhere"
                );
                Err(AuditStop::Fault(AuditFault { kind: AuditFaultKind::Forked, seq: Seq::new(size), what }))
            }
        }
    }

    fn entries(&mut self, reads: &mut dyn Reads, head: &Head, rows: &[EntryRow]) -> Result<(), AuditStop> {
        let mut ids: Vec<LedgerId> =
            rows.iter().flat_map(|row| row.entry.content.depends_on.iter().cloned()).collect();
        ids.sort_unstable();
        ids.dedup();
        let nodes = reads.nodes(head, &ids)?;
        let nodes: HashMap<&str, &LineageNode> = nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let mut edges = Vec::new();
        for row in rows {
            let expected = self.last.next();
            if row.entry.seq != expected {
                return Err(missing(expected));
            }
            let parents = parents(row, &nodes)?;
            edges.extend(parents.iter().map(|parent| (parent.seq, expected)));
            if let Some(column) = self.changed_column(row, &parents) {
                let what = format!("entry {expected}: the column `{column}` does not match the entry");
                return Err(AuditStop::Fault(AuditFault::changed(Some(expected), what)));
            }
            self.last = expected;
            self.last_at = row.entry.created_at;
            self.frontier.push(row.leaf, |_, _| {});
            self.hash(reads, head, 0, row.leaf)?;
            self.compare_signed()?;
        }
        self.edges += edges.len() as u64;
        match reads.missing_edge(head, &edges)? {
            None => Ok(()),
            Some((parent, child)) => {
                let what = format!("the edge from entry {parent} to entry {child} is missing");
                Err(AuditStop::Fault(AuditFault::changed(Some(child), what)))
            }
        }
    }

    /// The first derived column that does not match the entry and its dependencies.
    fn changed_column(&mut self, row: &EntryRow, parents: &[&LineageNode]) -> Option<&'static str> {
        let content = &row.entry.content;
        let event = recorded_identity(content);
        let mut derived = DerivedColumns::new(content, event.as_ref(), parents.iter().copied());
        derived.newest = EntryClass::of(content).map(|class| {
            let newest = row.entry.effective().max_of(self.newest.get(&class).copied());
            self.newest.insert(class, newest);
            newest.seq
        });
        let computed = EntryRow { derived, ..row.clone() };
        let changed = ENTRY_COLUMNS.iter().find(|column| {
            let is_audited = match column.source {
                ColumnSource::Entry | ColumnSource::NewEntry => false,
                ColumnSource::Derived => true,
                ColumnSource::NewlyDerived => !self.is_older,
            };
            is_audited && !column.value.is_same(row, &computed)
        });
        changed.map(|column| column.name)
    }

    /// Adds a hash to a level, and compares the tile that is completed by it.
    fn hash(
        &mut self,
        reads: &mut dyn Reads,
        head: &Head,
        level: usize,
        hash: Sha256,
    ) -> Result<(), AuditStop> {
        if self.open.len() <= level {
            self.open.push(Vec::new());
            self.tiles.push(0);
        }
        let (Some(open), Some(number)) = (self.open.get_mut(level), self.tiles.get_mut(level)) else {
            return Ok(());
        };
        open.push(hash);
        if (open.len() as u64) < TILE_WIDTH {
            return Ok(());
        }
        let index = *number;
        *number += 1;
        let hashes = std::mem::take(open);
        let root = subtree_root(&hashes);
        match reads.tile(head, level as u8, index)? {
            Some(tile) if tile.hashes == hashes && tile.root == root => {}
            _ => {
                let what = format!("tile {level}/{index} does not match its entries");
                return Err(AuditStop::Fault(AuditFault::changed(Some(self.last), what)));
            }
        }
        self.hash(reads, head, level + 1, root)
    }

    /// The checks that need all entries to be read.
    fn end(self, reads: &mut dyn Reads, head: &Head) -> Result<(), AuditStop> {
        let about_all = |what: &str| Err(AuditStop::Fault(AuditFault::changed(None, what.to_owned())));
        if self.frontier != head.frontier {
            return about_all("the head of the log does not match its entries");
        }
        if self.last_at != head.last_at {
            return about_all("the column `last_at` of the log is not the time of its newest entry");
        }
        if reads.edge_count(head)? != self.edges {
            return Err(stray(AuditFaultKind::Extra, None, "there are edges that no entry has"));
        }
        if reads.tile_count(head)? != self.tiles.iter().sum::<u64>() {
            return Err(stray(AuditFaultKind::Extra, None, "there are tiles that the tree does not have"));
        }
        if self.is_older {
            return Ok(());
        }
        if let Some(difference) = reads.schema_difference()? {
            let what = format!(
                "{difference}; export the log, import it into a new ledger, and find out who changed the schema"
            );
            return Err(AuditStop::Fault(AuditFault { kind: AuditFaultKind::Schema, seq: None, what }));
        }
        // Last, because the transaction ends with a finding.
        match reads.index_difference()? {
            None => Ok(()),
            Some(difference) => {
                let what = format!("{difference}; `REINDEX` builds the index again from the table");
                Err(AuditStop::Fault(AuditFault { kind: AuditFaultKind::Changed, seq: None, what }))
            }
        }
    }
}

/// The entries that an entry depends on.
fn parents<'a>(
    row: &EntryRow,
    nodes: &HashMap<&str, &'a LineageNode>,
) -> Result<Vec<&'a LineageNode>, AuditStop> {
    let seq = row.entry.seq;
    let ids = &row.entry.content.depends_on;
    let found: Vec<&LineageNode> = ids.iter().filter_map(|id| nodes.get(id.as_str()).copied()).collect();
    if found.len() == ids.len() && found.iter().all(|parent| parent.seq < seq) {
        return Ok(found);
    }
    let what = format!("entry {seq} depends on an entry that is not before it in the log; restore a backup");
    Err(AuditStop::Fault(AuditFault { kind: AuditFaultKind::Missing, seq: Some(seq), what }))
}
