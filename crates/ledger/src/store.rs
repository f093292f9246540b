//! What a backend must offer: one transaction that reads and writes a tenant's log, and consistent reads. Everything
//! the ledger promises beyond that is decided above, once for both backends.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId, TenantId};

use crealeph_decision::snapshot::SnapshotType;

use crate::audit::FaultKind;
use crate::entry::{Content, Stored};
use crate::error::LedgerError;
use crate::lease::{Holder, Token};
use crate::merkle::{Frontier, Tile};
use crate::position::{Millis, Seq};
use crate::reach::{Effective, Reach, Used};
use crate::read::{Filter, Index, StoredCheckpoint};

/// What is wrong with an entry of a snapshot type that does not know the newest of its class.
pub(crate) const NO_NEWEST: &str = "an entry is stored without the newest of its type";

/// Where a tenant's log stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The backend's own number for it; 0 where it needs none.
    pub number: i64,
    /// The opaque name of its log.
    pub origin: String,
    /// When the last entry was taken.
    pub last_at: Millis,
    /// The database's own time when this was read, where it has one.
    pub read_at: Option<Millis>,
    /// The tree's right edge, and its size.
    pub frontier: Frontier,
}

impl Head {
    /// The place of the newest entry.
    pub(crate) fn last_seq(&self) -> Seq {
        Seq::new(self.frontier.size()).unwrap_or(Seq::MAX)
    }
}

/// A stored entry with what the ledger derived from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The entry.
    pub stored: Stored,
    /// What its lineage reaches, by arrival.
    pub reach: Reach,
    /// What its lineage reaches, by effective time.
    pub used: Used,
    /// The effective newest of its robot, type and state up to here; for the snapshot types alone.
    pub newest: Option<Seq>,
    /// Its leaf in the Merkle log.
    pub leaf: Sha256,
    /// Where it belongs to an execution.
    pub execution: Option<String>,
    /// For an event, which try.
    pub attempt: Option<u64>,
}

/// What a lineage needs to know of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub seq: Seq,
    pub id: LedgerId,
    pub robot_id: RobotId,
    pub kind: String,
    pub created_at: Millis,
    /// Its effective time (R20).
    pub effective_at: Instant,
    pub depends_on: Vec<LedgerId>,
    pub reach: Reach,
    pub used: Used,
}

/// A robot's entries of a type in a state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub robot: String,
    pub kind: String,
    pub state: String,
}

impl Class {
    /// The class of an entry whose newest is kept: one of the snapshot types.
    pub(crate) fn of(content: &Content) -> Option<Class> {
        SnapshotType::parse(content.kind.as_str()).map(|kind| Class {
            robot: content.robot_id.as_str().to_owned(),
            kind: kind.as_str().to_owned(),
            state: content.state.as_str().to_owned(),
        })
    }
}

/// An entry as it is stored, unchecked: for export and for finding out what is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawEntry {
    /// The text its columns make, canonical unless someone changed them.
    pub canonical: String,
    /// The leaf hash stored beside it.
    pub leaf: Vec<u8>,
}

/// The identity of an execution event within its tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventIdentity {
    pub execution: String,
    pub robot: String,
    pub attempt: u64,
    pub state: String,
}

/// What a group of batches has to know of the log before it can be judged.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Entries named by id.
    pub ids: BTreeSet<String>,
    /// Entries named by client key, in a lineage.
    pub key_steps: BTreeSet<String>,
    /// Client keys of the entries to write.
    pub keys: BTreeSet<String>,
    /// Events to write.
    pub events: BTreeSet<EventIdentity>,
    /// The executions of those, as (execution, robot).
    pub executions: BTreeSet<(String, String)>,
    /// Classes of the entries to write that came late, and may not be the newest of theirs.
    pub classes: BTreeSet<Class>,
}

/// What the log holds of it.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub steps: BTreeMap<String, Step>,
    pub key_steps: BTreeMap<String, Step>,
    pub keys: BTreeMap<String, Row>,
    pub events: BTreeMap<EventIdentity, Row>,
    /// The newest event of each execution.
    pub last_events: BTreeMap<(String, String), Row>,
    /// The effective newest entry of each class.
    pub newest: BTreeMap<Class, Effective>,
}

/// An entry without what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub seq: Seq,
    pub id: LedgerId,
    pub created_at: Millis,
    pub payload_bytes: u64,
}

impl From<&Row> for Outline {
    fn from(Row { stored, .. }: &Row) -> Self {
        let payload_bytes = stored.content.payload.len() as u64;
        Outline { seq: stored.seq, id: stored.id.clone(), created_at: stored.created_at, payload_bytes }
    }
}

/// What is written for one tenant in one transaction.
#[derive(Debug)]
pub(crate) struct Addition {
    /// The entries, in order; the sequence numbers follow the head's.
    pub rows: Vec<Row>,
    /// For each entry the places it depends on.
    pub edges: Vec<(Seq, Seq)>,
    /// Tiles that became whole.
    pub tiles: Vec<Tile>,
    /// Where the log stands after it.
    pub head: Head,
}

/// A lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub name: Name,
    pub holder: Name,
    pub token: Token,
    pub until: Millis,
    pub ttl_ms: i64,
}

/// A lease that someone asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub name: Name,
    pub holder: Name,
    pub ttl_ms: i64,
    /// Not where the log has an entry of this execution after this place.
    pub unless: Option<(ExecutionId, Seq)>,
}

/// What became of asking for a lease.
#[derive(Clone, Debug)]
pub(crate) enum Claimed {
    Taken(Token),
    Held(Holder),
    Overtaken,
}

/// A transaction that may write.
pub(crate) trait Transaction {
    /// The tenant's log, made if it is new, and those leases that are there, all locked until the transaction ends.
    fn locked(&mut self, tenant: &TenantId, leases: &[&Name]) -> Result<(Head, Vec<LeaseRow>), LedgerError>;
    /// The tenant's log alone.
    fn locked_head(&mut self, tenant: &TenantId) -> Result<Head, LedgerError> {
        Ok(self.locked(tenant, &[])?.0)
    }
    /// Makes a log of that name for a tenant that has none, and locks it.
    fn create_head(&mut self, tenant: &TenantId, origin: &str) -> Result<Head, LedgerError>;
    /// What the log holds of what is needed.
    fn known(&mut self, head: &Head, needs: &Needs) -> Result<Known, LedgerError>;
    /// Leaf hashes (level 0) or roots of whole tiles of the level below.
    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError>;
    /// Writes entries and moves the head.
    fn add(&mut self, addition: &Addition) -> Result<(), LedgerError>;
    /// Keeps a signed checkpoint.
    fn add_checkpoint(&mut self, head: &Head, checkpoint: &StoredCheckpoint) -> Result<(), LedgerError>;
    /// Whether the log holds this id.
    fn holds(&mut self, head: &Head, id: &LedgerId) -> Result<bool, LedgerError>;
    /// The time that leases go by: the server's where several machines share one, else that of the machine since it started.
    fn lease_time(&mut self) -> Result<Millis, LedgerError>;
    /// A lease, locked until the transaction ends.
    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError>;
    /// Writes a lease under a token greater than any before, unless someone holds it or it is overtaken.
    fn claim_lease(&mut self, tenant: &TenantId, wanted: &Wanted) -> Result<Claimed, LedgerError>;
    /// Moves a lease's end.
    fn extend_lease(&mut self, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError>;
    /// Removes leases, where they still have that token.
    fn drop_leases(&mut self, tenant: &TenantId, leases: &[(&Name, Token)]) -> Result<(), LedgerError>;
}

/// What is done in one transaction; it may be run again from the start.
pub(crate) type Work<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<(), LedgerError>;

/// How a transaction ended badly.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Nothing of it is there.
    Nothing(LedgerError),
    /// The connection broke while it was being committed.
    Unknown(LedgerError),
}

/// A connection that writes; one thread owns it.
pub(crate) trait Writer: Send {
    /// Runs the work and commits it durably; leases alone only where their holders may outlive what was lost. On an error
    /// of the work nothing is kept.
    fn transact(
        &mut self,
        tenant: Option<&TenantId>,
        is_leases_only: bool,
        work: Work<'_>,
    ) -> Result<(), Unwritten>;
    /// Whether one transaction may span tenants.
    fn spans_tenants(&self) -> bool;
    /// Whether what is written takes messages, which cost much and carry any number of entries.
    fn is_far(&self) -> bool;
    /// Tells other processes that the tenant's log has grown; best effort, after the commit.
    fn announce(&mut self, tenants: &[TenantId]);
}

/// Which entries to read, newest or oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Selection<'a> {
    pub filter: &'a Filter,
    pub index: Index,
    /// The lowest and highest place that may be returned.
    pub low: Seq,
    pub high: Seq,
    pub newest_first: bool,
    pub limit: usize,
}

/// A consistent view of the ledger.
pub(crate) trait Reads {
    /// The tenant's log, if it has one.
    fn head(&mut self, tenant: &TenantId) -> Result<Option<Head>, LedgerError>;
    /// The entries at these places, in no promised order.
    fn by_seqs(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Row>, LedgerError>;
    /// Which entries are at these places, and how large: without their payloads, and so not checked by their hashes.
    fn outlines(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Outline>, LedgerError>;
    /// The entry of an id.
    fn by_id(&mut self, head: &Head, id: &LedgerId) -> Result<Option<Row>, LedgerError>;
    /// The entry of a client key.
    fn by_key(&mut self, head: &Head, key: &str) -> Result<Option<Row>, LedgerError>;
    /// Entries by filter and range.
    fn select(&mut self, head: &Head, selection: &Selection<'_>) -> Result<Vec<Row>, LedgerError>;
    /// How many entries there are by filter and range.
    fn count(&mut self, head: &Head, selection: &Selection<'_>) -> Result<u64, LedgerError>;
    /// The first robot after one, of those that have entries: a jump in the index.
    fn robot_after(&mut self, head: &Head, robot: &str) -> Result<Option<String>, LedgerError>;
    /// The first type after one, of those that a robot's entries have.
    fn kind_after(&mut self, head: &Head, robot: &RobotId, kind: &str)
    -> Result<Option<String>, LedgerError>;
    /// The first state after one, of those that a robot's entries of a type have been in: a jump in the index.
    fn state_after(&mut self, head: &Head, of: &Of<'_>, state: &str) -> Result<Option<String>, LedgerError>;
    /// The last places, at or before one, of a robot's entries of a type in a state.
    fn places(
        &mut self,
        head: &Head,
        of: &Of<'_>,
        state: &str,
        high: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, LedgerError>;
    /// The effective newest, at or before a place, of a robot's entries of a type in a state.
    fn newest(
        &mut self,
        head: &Head,
        of: &Of<'_>,
        state: &str,
        high: Seq,
    ) -> Result<Option<Seq>, LedgerError>;
    /// For each type, what a snapshot up to a place looks at of a robot's entries in any but some states. A backend that is
    /// far away answers all of it at once.
    fn latest(
        &mut self,
        head: &Head,
        robot: &RobotId,
        wanted: &[(&'static str, usize)],
        uncounted: &[String],
        high: Seq,
    ) -> Result<Vec<Latest>, LedgerError> {
        let mut found = Vec::with_capacity(wanted.len());
        for &(kind, limit) in wanted {
            let of = Of { robot, kind };
            let mut latest = Latest::default();
            let mut state = String::new();
            while let Some(next) = self.state_after(head, &of, &state)? {
                if !uncounted.contains(&next) {
                    latest.last.extend(self.places(head, &of, &next, high, limit)?);
                    if SnapshotType::parse(kind).is_some() {
                        latest.newest.extend(self.newest(head, &of, &next, high)?);
                    }
                }
                state = next;
            }
            latest.last.sort_unstable_by(|a, b| b.cmp(a));
            latest.last.truncate(limit);
            found.push(latest);
        }
        Ok(found)
    }
    /// Whether the schema is one in which entries know their effective newest; the error says how to get there.
    fn check_schema(&self) -> Result<(), LedgerError>;
    /// When the entry at a place was taken.
    fn created_at(&mut self, head: &Head, seq: Seq) -> Result<Millis, LedgerError>;
    /// What lineages need of these ids.
    fn steps(&mut self, head: &Head, ids: &[LedgerId]) -> Result<Vec<Step>, LedgerError>;
    /// The places that depend on a place.
    fn children(&mut self, head: &Head, seq: Seq, limit: usize) -> Result<Vec<Seq>, LedgerError>;
    /// The places an entry depends on, as the edges have it.
    fn parents(&mut self, head: &Head, seq: Seq) -> Result<Vec<Seq>, LedgerError>;
    /// The entries of a range as they are stored, unchecked, in order.
    fn raw(&mut self, head: &Head, low: Seq, high: Seq) -> Result<Vec<RawEntry>, LedgerError>;
    /// The first of these edges, as (depended on, dependent), that the log does not have.
    fn missing_edge(&mut self, head: &Head, edges: &[(Seq, Seq)]) -> Result<Option<(Seq, Seq)>, LedgerError>;
    /// How many edges the log has.
    fn edge_count(&mut self, head: &Head) -> Result<u64, LedgerError>;
    /// Leaf hashes (level 0) or roots of whole tiles of the level below.
    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError>;
    /// A whole tile, if it is there.
    fn tile(&mut self, head: &Head, level: u8, index: u64) -> Result<Option<Tile>, LedgerError>;
    /// How many tiles the log has.
    fn tile_count(&mut self, head: &Head) -> Result<u64, LedgerError>;
    /// A row that is in no log's tree, described for a person: beyond the head, or of no log at all.
    fn stray_row(&mut self, head: &Head) -> Result<Option<Stray>, LedgerError>;
    /// How the schema differs from the one that this program makes: triggers, indexes, policies, rights.
    fn schema_difference(&mut self) -> Result<Option<String>, LedgerError>;
    /// The checkpoints kept, by size.
    fn checkpoints(&mut self, head: &Head) -> Result<Vec<StoredCheckpoint>, LedgerError>;
    /// A lease.
    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError>;
    /// The time that leases go by.
    fn lease_time(&mut self) -> Result<Millis, LedgerError>;
}

/// What a snapshot looks at of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latest {
    /// The places that came last, the last one first.
    pub last: Vec<Seq>,
    /// The effective newest of each state.
    pub newest: Vec<Seq>,
}

/// A row that no log accounts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub kind: FaultKind,
    /// The entry it pretends to be, if it is one of this log.
    pub seq: Option<Seq>,
    /// Which row of which table, and what is wrong with it.
    pub what: String,
}

/// A tenant that has a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantLog {
    /// The tenant.
    pub tenant_id: TenantId,
    /// How many entries it has.
    pub entries: u64,
    /// When the newest was taken.
    pub last_at: Option<Millis>,
}

/// A robot's entries of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub robot: &'a RobotId,
    pub kind: &'a str,
}

/// What is asked in one consistent view.
pub(crate) type Question<'a> = &'a mut dyn FnMut(&mut dyn Reads) -> Result<(), LedgerError>;

/// One place where a ledger lives.
pub(crate) trait Backend: Send + Sync {
    /// The place, without secrets, for messages.
    fn place(&self) -> &str;
    /// A new writing connection.
    fn writer(&self) -> Result<Box<dyn Writer>, LedgerError>;
    /// How many writing threads are worth having.
    fn writers(&self) -> usize;
    /// Runs a question in one consistent view.
    fn read(&self, tenant: Option<&TenantId>, question: Question<'_>) -> Result<(), LedgerError>;
    /// Waits, up to a bound, until another process may have written; used by one thread while someone follows.
    fn wait_for_others(&self, wait_ms: u64) -> Result<bool, LedgerError>;
    /// Every log; only for who may see them all.
    fn tenants(&self) -> Result<Vec<TenantLog>, LedgerError>;
    /// Copies the whole ledger to a new file while it is in use.
    fn backup(&self, to: &std::path::Path) -> Result<(), LedgerError>;
    /// Checks the storage itself.
    fn check_storage(&self) -> Result<(), LedgerError>;
}
