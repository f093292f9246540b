//! The interface of a backend: one transaction that reads and writes a tenant's log, and consistent reads. Everything
//! else that the ledger promises is decided above it, once for both backends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId, TenantId};

use crate::accepted::{AcceptedRequest, RequestName, RequestOutcome, RequestToAccept, RequestToRun};
use crate::audit::AuditFaultKind;
use crate::error::LedgerError;
use crate::lease::{LeaseHolder, LeaseToken};
use crate::merkle::{Frontier, Tile};
use crate::position::{Millis, Seq};
use crate::processes::ProcessRow;
use crate::reach::EffectiveTime;
use crate::read::{EntryIndex, Filter, StoredCheckpoint};
use crate::row::{EntryClass, EntryRow, EventIdentity, ExecutionKey, LineageNode, Outline, RawEntry};
use crate::subscription::{Subscription, SubscriptionProgress};

/// The error of an entry of a snapshot type that does not know the newest of its class.
pub(crate) const NO_NEWEST: &str = "an entry is stored without the newest of its type";

/// The state of a tenant's log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The backend's own number for it; 0 if it needs none.
    pub number: i64,
    /// The opaque name of its log.
    pub origin: String,
    /// When the last entry was accepted.
    pub last_at: Millis,
    /// The database's own time when this was read, if it has a clock.
    pub read_at: Option<Millis>,
    /// The tree's right edge, and its size.
    pub frontier: Frontier,
}

impl Head {
    /// The sequence number of the newest entry.
    pub(crate) fn last_seq(&self) -> Seq {
        Seq::new(self.frontier.size()).unwrap_or(Seq::MAX)
    }
}

/// What must be known of the log before a group of batches can be judged.
#[derive(Debug, Default)]
pub(crate) struct NeededEntries {
    /// Entries named by id.
    pub ids: BTreeSet<String>,
    /// Entries named by client key, in a lineage.
    pub lineage_keys: BTreeSet<String>,
    /// Client keys of the entries to write.
    pub new_keys: BTreeSet<String>,
    /// Events to write.
    pub events: BTreeSet<EventIdentity>,
    /// The executions of those.
    pub executions: BTreeSet<ExecutionKey>,
    /// Classes of the entries to write that were backfilled, and may not be the newest of theirs.
    pub classes: BTreeSet<EntryClass>,
}

/// The log's content of those needs.
#[derive(Debug, Default)]
pub(crate) struct KnownEntries {
    pub by_id: BTreeMap<String, Arc<LineageNode>>,
    /// By the client keys that lineages name.
    pub by_key: BTreeMap<String, Arc<LineageNode>>,
    /// By the client keys of the entries to write: complete, because repeats are compared.
    pub recorded: BTreeMap<String, EntryRow>,
    pub events: BTreeMap<EventIdentity, EntryRow>,
    /// The newest event of each execution.
    pub last_events: BTreeMap<ExecutionKey, EventIdentity>,
    /// The effective newest entry of each class.
    pub newest: BTreeMap<EntryClass, EffectiveTime>,
}

/// The rows written for one tenant in one transaction.
#[derive(Debug)]
pub(crate) struct Addition {
    /// The entries, in order; the sequence numbers follow the head's.
    pub rows: Vec<EntryRow>,
    /// Their dependencies, as (dependency, dependent).
    pub edges: Vec<(Seq, Seq)>,
    /// Tiles that were completed.
    pub tiles: Vec<Tile>,
    /// The state of the log after it.
    pub head: Head,
}

/// A lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub name: Name,
    pub holder: Name,
    pub token: LeaseToken,
    pub until: Millis,
    pub ttl_ms: i64,
}

/// A request for a lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRequest {
    pub name: Name,
    pub holder: Name,
    pub ttl_ms: i64,
    /// Not if the log has an entry of this execution after this sequence number.
    pub unless: Option<(ExecutionId, Seq)>,
}

/// The result of requesting a lease.
#[derive(Clone, Debug)]
pub(crate) enum ClaimResult {
    Taken(LeaseToken),
    Held(LeaseHolder),
    /// The log has the entry that the request excludes.
    Overtaken,
}

/// A transaction that may write.
pub(crate) trait Transaction {
    /// The tenant's log, created if it is new, and the existing leases of these names, all locked until the transaction ends.
    fn locked(&mut self, tenant: &TenantId, leases: &[&Name]) -> Result<(Head, Vec<LeaseRow>), LedgerError>;
    /// Only the tenant's log.
    fn locked_head(&mut self, tenant: &TenantId) -> Result<Head, LedgerError> {
        Ok(self.locked(tenant, &[])?.0)
    }
    /// Creates a log of that name for a tenant that has none, and locks it.
    fn create_head(&mut self, tenant: &TenantId, origin: &str) -> Result<Head, LedgerError>;
    /// The log's content of what is needed.
    fn known(&mut self, head: &Head, needs: &NeededEntries) -> Result<KnownEntries, LedgerError>;
    /// Leaf hashes (level 0) or roots of whole tiles of the level below.
    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError>;
    /// Writes entries and moves the head.
    fn add(&mut self, addition: &Addition) -> Result<(), LedgerError>;
    /// Stores a signed checkpoint.
    fn add_checkpoint(&mut self, head: &Head, checkpoint: &StoredCheckpoint) -> Result<(), LedgerError>;
    /// The clock of leases: the server's if several machines share one, else the time since this machine started.
    fn lease_time(&mut self) -> Result<Millis, LedgerError>;
    /// A lease, locked until the transaction ends.
    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError>;
    /// Writes a lease under a token greater than any before, unless someone holds it or it is overtaken.
    fn claim_lease(&mut self, tenant: &TenantId, request: &LeaseRequest) -> Result<ClaimResult, LedgerError>;
    /// Moves a lease's end.
    fn extend_lease(&mut self, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError>;
    /// Removes leases that still have that token.
    fn drop_leases(&mut self, tenant: &TenantId, leases: &[(&Name, LeaseToken)]) -> Result<(), LedgerError>;
    /// A request that was accepted.
    fn request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError>;
    /// How many requests of the tenant and of all are open, each counted up to a limit.
    fn open_requests(
        &mut self,
        tenant: &TenantId,
        per_tenant: u64,
        total: u64,
    ) -> Result<(u64, u64), LedgerError>;
    /// Writes a request, under the tenant's next token, replacing one of its name.
    fn put_request(
        &mut self,
        tenant: &TenantId,
        request: &RequestToAccept,
        now: Millis,
    ) -> Result<LeaseToken, LedgerError>;
    /// Sets how often a request was taken up.
    fn count_request(&mut self, tenant: &TenantId, name: &RequestName, tries: u64)
    -> Result<(), LedgerError>;
    /// Ends a request.
    fn end_request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
        outcome: &RequestOutcome,
        now: Millis,
    ) -> Result<(), LedgerError>;
    /// Removes requests.
    fn drop_requests(&mut self, tenant: &TenantId, names: &[&RequestName]) -> Result<(), LedgerError>;
    /// Removes the tenant's requests that ended before a time.
    fn sweep_requests(&mut self, tenant: &TenantId, before: Millis) -> Result<(), LedgerError>;
    /// The server processes; no other process registers or leaves until the transaction ends.
    fn locked_processes(&mut self) -> Result<Vec<ProcessRow>, LedgerError>;
    /// Writes a process, replacing an earlier row of it.
    fn put_process(&mut self, row: &ProcessRow) -> Result<(), LedgerError>;
    /// Removes a process.
    fn drop_process(&mut self, name: &Name) -> Result<(), LedgerError>;
    /// How many subscriptions the tenant has.
    fn count_subscriptions(&mut self, tenant: &TenantId) -> Result<usize, LedgerError>;
    /// Adds a subscription.
    fn add_subscription(&mut self, tenant: &TenantId, new: &Subscription) -> Result<(), LedgerError>;
    /// Advances a subscription.
    fn move_subscription(
        &mut self,
        tenant: &TenantId,
        progress: &SubscriptionProgress,
    ) -> Result<(), LedgerError>;
    /// Removes a subscription, if it exists.
    fn remove_subscription(&mut self, tenant: &TenantId, id: &Name) -> Result<(), LedgerError>;
}

/// The work of one transaction; it may be run again from the start.
pub(crate) type TransactionWork<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<(), LedgerError>;

/// How a transaction failed.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// Nothing of it was written.
    Nothing(LedgerError),
    /// The connection broke while it was being committed.
    Unknown(LedgerError),
}

/// A connection that writes; one thread owns it.
pub(crate) trait Writer: Send {
    /// Runs the work and commits it durably; leases alone only if their holders may outlive the loss. On an error
    /// of the work nothing is kept.
    fn transact(
        &mut self,
        tenant: Option<&TenantId>,
        is_leases_only: bool,
        work: TransactionWork<'_>,
    ) -> Result<(), WriteFailure>;
    /// Whether it writes by messages, which are expensive and carry any number of entries of one tenant.
    fn is_remote(&self) -> bool;
    /// Tells other processes that the tenant's log has grown; best effort, after the commit.
    fn announce(&mut self, tenants: &[TenantId]);
}

/// Which entries to read, newest or oldest first.
#[derive(Clone, Debug)]
pub(crate) struct EntrySelection<'a> {
    pub filter: &'a Filter,
    pub index: EntryIndex,
    /// The lowest and highest sequence number that may be returned.
    pub low: Seq,
    pub high: Seq,
    pub newest_first: bool,
    pub limit: usize,
}

impl<'a> EntrySelection<'a> {
    /// The columns that must have a value.
    pub(crate) fn equalities(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let filter = self.filter;
        let columns = [
            ("robot", filter.robot_id.as_ref().map(|id| id.as_str())),
            ("kind", filter.kind.as_ref().map(|kind| kind.as_str())),
            ("state", filter.state.as_ref().map(|state| state.as_str())),
            ("module", filter.module.as_ref().map(|module| module.as_str())),
            ("execution", filter.execution_id.as_ref().map(|id| id.as_str())),
        ];
        columns.into_iter().filter_map(|(column, value)| Some((column, value?)))
    }
}

/// The last entry of one type and state of a robot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LastOfClass {
    pub kind: String,
    pub seq: Seq,
}

/// The direction in which a value of a column is searched, from a given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    AtOrAfter,
    After,
}

impl Side {
    /// The comparison with the given value, and the order that has the nearest one first.
    pub(crate) fn sql(self) -> (&'static str, &'static str) {
        match self {
            Side::Before => ("<", "DESC"),
            Side::AtOrAfter => (">=", "ASC"),
            Side::After => (">", "ASC"),
        }
    }
}

/// The values right before and after one.
pub(crate) type Neighbours = (Option<String>, Option<String>);

/// Columns and the values that they must have.
pub(crate) type Equalities<'a> = &'a [(&'static str, &'a str)];

/// A consistent view of the ledger.
pub(crate) trait Reads {
    /// The tenant's log, if it has one.
    fn head(&mut self, tenant: &TenantId) -> Result<Option<Head>, LedgerError>;
    /// The entries of these sequence numbers, in no promised order.
    fn by_seqs(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<EntryRow>, LedgerError>;
    /// The outlines of these sequence numbers: which entries, and how large.
    fn outlines(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Outline>, LedgerError>;
    /// The entry of an id.
    fn by_id(&mut self, head: &Head, id: &LedgerId) -> Result<Option<EntryRow>, LedgerError>;
    /// The entry of a client key.
    fn by_key(&mut self, head: &Head, key: &str) -> Result<Option<EntryRow>, LedgerError>;
    /// Entries by filter and range.
    fn select(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<Vec<EntryRow>, LedgerError>;
    /// The sequence numbers of entries by filter and range.
    fn select_seqs(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<Vec<Seq>, LedgerError>;
    /// The first entries by filter and range of a robot, merged from the index of each type and state that it has (of the filter's
    /// type, if there is one); `None`, and no entry is looked up, if it has more than `most` of those.
    fn merged_seqs(
        &mut self,
        head: &Head,
        robot: &RobotId,
        selection: &EntrySelection<'_>,
        most: usize,
    ) -> Result<Option<Vec<Seq>>, LedgerError>;
    /// The last entry of each type and state of a robot, in the order of types and states; at most `most` of those.
    fn last_of_classes(
        &mut self,
        head: &Head,
        robot: &RobotId,
        most: usize,
    ) -> Result<Vec<LastOfClass>, LedgerError>;
    /// How many entries there are by filter and range.
    fn count(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<u64, LedgerError>;
    /// The newest draft of a robot that has this many newer ones.
    fn draft_after(&mut self, head: &Head, robot: &RobotId, newer: usize)
    -> Result<Option<Seq>, LedgerError>;
    /// The nearest value of a column on a side of one, of the entries that have these values in other columns: a jump in the
    /// index.
    fn value_beside(
        &mut self,
        head: &Head,
        column: &'static str,
        among: Equalities<'_>,
        side: Side,
        value: &str,
    ) -> Result<Option<String>, LedgerError>;
    /// The values of a column right before and after each of these.
    fn neighbours(
        &mut self,
        head: &Head,
        column: &'static str,
        values: &[&str],
    ) -> Result<Vec<Neighbours>, LedgerError> {
        let mut beside = |side, value: &str| self.value_beside(head, column, &[], side, value);
        let neighbours = |value: &&str| Ok((beside(Side::Before, value)?, beside(Side::After, value)?));
        values.iter().map(neighbours).collect()
    }
    /// All values after one in order, at most a number of them.
    fn values_after(
        &mut self,
        head: &Head,
        column: &'static str,
        among: Equalities<'_>,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, LedgerError> {
        let mut values: Vec<String> = Vec::new();
        while values.len() < limit
            && let Some(value) = self.value_beside(
                head,
                column,
                among,
                Side::After,
                values.last().map_or(after, String::as_str),
            )?
        {
            values.push(value);
        }
        Ok(values)
    }
    /// The last sequence numbers, at or before one, of the entries that have these values; the last one first.
    fn last_seqs(
        &mut self,
        head: &Head,
        among: Equalities<'_>,
        high: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, LedgerError>;
    /// For each type, the entries that a snapshot up to a sequence number reads of a robot's entries in any but some states.
    fn latest(
        &mut self,
        head: &Head,
        robot: &RobotId,
        wanted: &[(&'static str, usize)],
        uncounted: &[String],
        high: Seq,
    ) -> Result<Vec<LatestEntries>, LedgerError>;
    /// Whether the schema is one in which entries know their effective newest; the error says how to migrate.
    fn check_schema(&self) -> Result<(), LedgerError>;
    /// When the entry of a sequence number was accepted.
    fn created_at(&mut self, head: &Head, seq: Seq) -> Result<Millis, LedgerError>;
    /// The parts that lineages need of the entries of these ids.
    fn nodes(&mut self, head: &Head, ids: &[LedgerId]) -> Result<Vec<LineageNode>, LedgerError>;
    /// The dependents of an entry, in order.
    fn children(&mut self, head: &Head, seq: Seq, limit: usize) -> Result<Vec<Seq>, LedgerError>;
    /// The dependencies of an entry, in order.
    fn parents(&mut self, head: &Head, seq: Seq) -> Result<Vec<Seq>, LedgerError> {
        let rows = self.by_seqs(head, &[seq])?;
        let ids: Vec<LedgerId> = rows.into_iter().flat_map(|row| row.entry.content.depends_on).collect();
        let mut parents: Vec<Seq> = self.nodes(head, &ids)?.into_iter().map(|node| node.seq).collect();
        parents.sort_unstable();
        Ok(parents)
    }
    /// The entries of a range as they are stored, unchecked, in order.
    fn raw(&mut self, head: &Head, low: Seq, high: Seq) -> Result<Vec<RawEntry>, LedgerError>;
    /// The first of these edges, as (dependency, dependent), that the log does not have.
    fn missing_edge(&mut self, head: &Head, edges: &[(Seq, Seq)]) -> Result<Option<(Seq, Seq)>, LedgerError>;
    /// How many edges the log has.
    fn edge_count(&mut self, head: &Head) -> Result<u64, LedgerError>;
    /// Leaf hashes (level 0) or roots of whole tiles of the level below.
    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError>;
    /// A whole tile, if it exists.
    fn tile(&mut self, head: &Head, level: u8, index: u64) -> Result<Option<Tile>, LedgerError>;
    /// How many tiles the log has.
    fn tile_count(&mut self, head: &Head) -> Result<u64, LedgerError>;
    /// A row that is in no log's tree, described for a person: beyond the head, or of no log at all.
    fn stray_row(&mut self, head: &Head) -> Result<Option<StrayRow>, LedgerError>;
    /// How the schema differs from the one that this program creates: triggers, indexes, policies, privileges.
    fn schema_difference(&mut self) -> Result<Option<String>, LedgerError>;
    /// The first index that does not match its table, if the storage does not ensure that itself.
    fn index_difference(&mut self) -> Result<Option<String>, LedgerError> {
        Ok(None)
    }
    /// What an audit cannot check here, and what would allow it.
    fn unchecked(&mut self) -> Result<Option<String>, LedgerError> {
        Ok(None)
    }
    /// The stored checkpoints, by size.
    fn checkpoints(&mut self, head: &Head) -> Result<Vec<StoredCheckpoint>, LedgerError>;
    /// A lease.
    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError>;
    /// The clock of leases.
    fn lease_time(&mut self) -> Result<Millis, LedgerError>;
    /// A request that was accepted.
    fn request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError>;
    /// Open requests in the order of acceptance.
    fn requests(
        &mut self,
        tenant: &TenantId,
        robot: Option<&RobotId>,
        after: Option<LeaseToken>,
        limit: usize,
    ) -> Result<Vec<AcceptedRequest>, LedgerError>;
    /// The first open request that no process works on.
    fn waiting_request(
        &mut self,
        tenant: &TenantId,
        after: Option<LeaseToken>,
    ) -> Result<Option<RequestToRun>, LedgerError>;
    /// The first tenant after a name that has such a request, or one that ended before a time.
    fn tenant_with_work(
        &mut self,
        after: &str,
        ended_before: Millis,
    ) -> Result<Option<TenantId>, LedgerError>;
    /// The subscriptions of a tenant, by id.
    fn subscriptions(&mut self, tenant: &TenantId) -> Result<Vec<Subscription>, LedgerError>;
    /// The tenants that have one.
    fn subscribed_tenants(&mut self) -> Result<Vec<TenantId>, LedgerError>;
}

/// The entries that a snapshot reads of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatestEntries {
    /// The last ones, the last one first.
    pub last: Vec<Seq>,
    /// The effective newest of each state.
    pub newest: Vec<Seq>,
}

/// A row that no log accounts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StrayRow {
    pub kind: AuditFaultKind,
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
    /// When the newest was accepted.
    pub last_at: Option<Millis>,
}

/// Receives the bytes that a backup has written, and how many there will be in total.
pub(crate) type BackupReport = Box<dyn FnMut(u64, u64) + Send>;

/// A query of one consistent view.
pub(crate) type ReadQuestion<'a> = &'a mut dyn FnMut(&mut dyn Reads) -> Result<(), LedgerError>;

/// The storage of a ledger.
pub(crate) trait Backend: Send + Sync {
    /// The file or database, without secrets, for messages.
    fn place(&self) -> &str;
    /// A new writing connection.
    fn writer(&self) -> Result<Box<dyn Writer>, LedgerError>;
    /// How many writing threads are useful.
    fn writers(&self) -> usize;
    /// Runs a query in one consistent view.
    fn read(&self, tenant: Option<&TenantId>, question: ReadQuestion<'_>) -> Result<(), LedgerError>;
    /// Waits, up to a limit, until another process may have written; used by one thread while someone follows.
    fn wait_for_others(&self, wait_ms: u64) -> Result<bool, LedgerError>;
    /// A number that changes after every write, by any process; `None` if the database would have to be
    /// queried for it.
    fn change_mark(&self) -> Result<Option<i64>, LedgerError>;
    /// Every log; only for those who may see them all.
    fn tenants(&self) -> Result<Vec<TenantLog>, LedgerError>;
    /// Copies the whole ledger to a new file while it is in use, and reports the progress.
    fn backup(&self, to: &std::path::Path, report: BackupReport) -> Result<(), LedgerError>;
    /// Checks the storage itself.
    fn check_storage(&self) -> Result<(), LedgerError>;
}
