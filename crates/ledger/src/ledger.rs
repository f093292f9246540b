//! The handle of a ledger: cheap to clone, shared between threads and tasks.
//!
//! The interface blocks, because one thread per process is enough for writing. [`Ledger::submit`] returns an answer that
//! can be awaited, so an async server never blocks on a write; it wraps reads, which take microseconds to milliseconds, in
//! its own blocking pool.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::ComposeError;
use crealeph_contracts::scalar::{ClientKey, LedgerId, Name, RobotId, TenantId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{NewestEntries, SnapshotFacts};
use tracing::field::Empty;
use tracing::{debug, info_span};

use crate::clock::{Clock, DatingClock};
use crate::entry::{Content, MAX_PAYLOAD_DEPTH, StoredEntry};
use crate::error::{AppendError, EntryRefusal, LedgerError};
use crate::follow::{AllLogsWatch, Growth, LogWatch};
use crate::heart::Heart;
use crate::kept::KeptValues;
use crate::keys::{Keyring, SigningKeyError};
use crate::limits::LedgerLimits;
use crate::pending::{AnswerSender, AppendResult, PendingAnswer};
use crate::plan::PreparedEntry;
use crate::position::Seq;
use crate::postgresql::Postgres;
use crate::read::{Cursor, Direction, EntryPage, Filter, LineageEntries, Order};
use crate::reserved::reserved_in;
use crate::sqlite::Sqlite;
use crate::store::{Backend, Head, Reads, TenantLog, TransactionWork, WriteFailure, Writer};
use crate::writer::{self, Batch, Job};

/// The location of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL database, by its connection URL.
    Postgres(String),
}

impl Location {
    /// Reads a location as a user writes it: `postgres://…`, else a file.
    pub fn parse(text: &str) -> Location {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            Location::Postgres(text.to_owned())
        } else {
            Location::File(PathBuf::from(text))
        }
    }

    /// The default folder of its signing keys.
    pub fn default_keys(&self) -> PathBuf {
        match self {
            Location::File(file) => {
                let mut name = file.file_name().unwrap_or_default().to_owned();
                name.push(".keys");
                file.with_file_name(name)
            }
            Location::Postgres(_) => PathBuf::from("crealeph.keys"),
        }
    }
}

/// How long the listener waits for other processes' writes before it looks again.
const FOLLOW_MS: u64 = 500;
/// How many idle connections for rare writes are kept.
const SPARE_WRITERS: usize = 2;

/// The options for opening a ledger.
#[derive(Clone, Debug)]
pub struct LedgerOptions {
    /// The limits.
    pub limits: LedgerLimits,
    /// The clock.
    pub clock: Clock,
    /// The folder of the signing keys; by default next to the file.
    pub keys: Option<PathBuf>,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        LedgerOptions { limits: LedgerLimits::default(), clock: Clock::system(), keys: None }
    }
}

/// An open ledger.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Inner>,
    /// The actor of its entries.
    actor: Option<Name>,
}

/// A handle that does not keep the ledger open.
pub(crate) struct WeakLedger(Weak<Inner>);

impl WeakLedger {
    pub(crate) fn upgrade(&self) -> Option<Ledger> {
        self.0.upgrade().map(|shared| Ledger { shared, actor: None })
    }
}

pub(crate) struct Inner {
    pub backend: Box<dyn Backend>,
    pub limits: LedgerLimits,
    pub clock: Clock,
    pub keys: PathBuf,
    writers: OnceLock<Vec<WritingThread>>,
    /// Held while the writing threads are started.
    starting: Mutex<()>,
    /// Idle connections for writes outside the writing threads.
    spare: Mutex<Vec<Box<dyn Writer>>>,
    growth: Arc<Growth>,
    pub heart: Heart,
    /// Values that others derive from the ledger.
    pub kept: KeptValues,
    listener: Mutex<Option<JoinHandle<()>>>,
}

struct WritingThread {
    jobs: SyncSender<Job>,
    thread: JoinHandle<()>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger at {}", self.shared.backend.place())
    }
}

impl Ledger {
    /// Creates a new, empty ledger with its first signing key, and opens it.
    pub fn init(location: &Location, options: LedgerOptions) -> Result<Ledger, LedgerError> {
        let keys = options.keys.clone().unwrap_or_else(|| location.default_keys());
        let create = || match location {
            Location::File(file) => Sqlite::create(file, options.limits.wait_ms),
            Location::Postgres(url) => Postgres::create(url, options.limits.wait_ms),
        };
        // The ledger is created completely or not at all, so after an interruption at most its key is missing.
        let made = create();
        let has_key = match Keyring::load(&keys) {
            Ok(_) => true,
            Err(SigningKeyError::Missing { .. }) => false,
            Err(error) => return made.and(Err(error.into())),
        };
        let is_interrupted = matches!(made, Err(LedgerError::Exists { .. }))
            && !has_key
            && Ledger::open(location, options.clone())
                .and_then(|ledger| ledger.tenants())
                .is_ok_and(|logs| logs.is_empty());
        if !is_interrupted {
            made?;
        }
        if !has_key {
            Keyring::create(&keys)?;
        }
        Ledger::open(location, options)
    }

    /// Opens an existing ledger.
    pub fn open(location: &Location, options: LedgerOptions) -> Result<Ledger, LedgerError> {
        let keys = options.keys.clone().unwrap_or_else(|| location.default_keys());
        let backend: Box<dyn Backend> = match location {
            Location::File(file) => Box::new(Sqlite::open(file, options.limits.wait_ms)?),
            Location::Postgres(url) => Box::new(Postgres::open(url, options.limits.wait_ms)?),
        };
        let shared = Arc::new(Inner {
            backend,
            limits: options.limits.bounded(),
            clock: options.clock,
            keys,
            writers: OnceLock::new(),
            starting: Mutex::new(()),
            spare: Mutex::new(Vec::new()),
            growth: Arc::new(Growth::default()),
            heart: Heart::default(),
            kept: KeptValues::default(),
            listener: Mutex::new(None),
        });
        Ok(Ledger { shared, actor: None })
    }

    /// The same ledger, with an actor for its entries: the server sets it, from the credential, and it becomes the entry's
    /// `actor`.
    #[must_use]
    pub fn acting_for(&self, actor: Name) -> Ledger {
        Ledger { shared: Arc::clone(&self.shared), actor: Some(actor) }
    }

    /// The file or database, without secrets.
    pub fn place(&self) -> &str {
        self.shared.backend.place()
    }

    /// The limits it was opened with.
    pub fn limits(&self) -> &LedgerLimits {
        &self.shared.limits
    }

    /// Appends a batch, completely or not at all, and waits until it is durable. Reserved entries are refused.
    pub fn append(&self, tenant: &TenantId, batch: Vec<Draft>) -> AppendResult {
        let span = info_span!("append", %tenant, count = batch.len(), first_seq = Empty).entered();
        unreserved(&batch)?;
        let (answer, pending) = AnswerSender::pair();
        self.send(Job::append(tenant, self.batch(tenant, batch, answer)?))?;
        let outcome = pending.wait();
        if let Ok([first, ..]) = outcome.as_deref() {
            span.record("first_seq", first.seq.get());
        }
        outcome
    }

    /// Gives a job to the writer; waits while too many jobs wait.
    pub(crate) fn send(&self, job: Job) -> Result<(), LedgerError> {
        let sender = self.writing_thread(&job.tenant_id)?;
        sender.send(job).map_err(|_| LedgerError::Closed)
    }

    /// Gives a batch to the writer without waiting; the answer can be awaited. Refused if too many wait.
    pub fn submit(&self, tenant: &TenantId, batch: Vec<Draft>) -> Result<PendingAnswer, AppendError> {
        unreserved(&batch)?;
        let (answer, pending) = AnswerSender::pair();
        let job = Job::append(tenant, self.batch(tenant, batch, answer)?);
        match self.writing_thread(tenant)?.try_send(job) {
            Ok(()) => Ok(pending),
            Err(TrySendError::Full(_)) => {
                Err(LedgerError::Overloaded { waiting: self.shared.limits.waiting_batches }.into())
            }
            Err(TrySendError::Disconnected(_)) => Err(LedgerError::Closed.into()),
        }
    }

    /// Prepares a batch on the caller's thread: normal form, limits, events parsed.
    pub(crate) fn batch(
        &self,
        tenant: &TenantId,
        batch: Vec<Draft>,
        answer: AnswerSender,
    ) -> Result<Batch, AppendError> {
        debug!(%tenant, count = batch.len(), "batch for the writer");
        let limits = &self.shared.limits;
        let too_large = |position, what, found, limit| {
            let refusal = EntryRefusal::TooLarge { what, found, limit };
            AppendError::Refused { position, refusal }
        };
        if batch.len() > limits.batch_entries {
            return Err(too_large(0, "the batch's number of entries", batch.len(), limits.batch_entries));
        }
        let mut bytes = 0;
        let mut entries = Vec::with_capacity(batch.len());
        for (position, draft) in batch.into_iter().enumerate() {
            let (content, depth) = Content::of(draft);
            if depth > MAX_PAYLOAD_DEPTH {
                let refusal = EntryRefusal::Unreadable(too_deep(depth));
                return Err(AppendError::Refused { position, refusal });
            }
            let (payload, ids) = (content.payload.len(), content.depends_on.len());
            bytes += payload;
            let sizes = [
                ("the payload's size in bytes", payload, limits.payload_bytes),
                ("the batch's size in bytes", bytes, limits.batch_bytes),
                ("the lineage's number of ids", ids, limits.lineage_ids),
            ];
            if let Some((what, found, limit)) = sizes.into_iter().find(|(_, found, limit)| found > limit) {
                return Err(too_large(position, what, found, limit));
            }
            entries.push(PreparedEntry { actor: self.actor.clone(), ..PreparedEntry::new(tenant, content) });
        }
        Ok(Batch { entries, fence: None, settles: None, answer })
    }

    /// The thread that writes for this tenant; the threads are started by the first append.
    fn writing_thread(&self, tenant: &TenantId) -> Result<&SyncSender<Job>, LedgerError> {
        let writers = match self.shared.writers.get() {
            Some(writers) => writers,
            None => {
                let _starting = self.shared.starting.lock().unwrap_or_else(PoisonError::into_inner);
                match self.shared.writers.get() {
                    Some(writers) => writers,
                    None => {
                        let started = self.start_writing()?;
                        self.shared.writers.get_or_init(|| started)
                    }
                }
            }
        };
        let hash =
            tenant.as_str().bytes().fold(0usize, |hash, byte| hash.wrapping_mul(31) ^ usize::from(byte));
        let writer = writers.get(hash % writers.len().max(1));
        writer.map(|writer| &writer.jobs).ok_or(LedgerError::Closed)
    }

    fn start_writing(&self) -> Result<Vec<WritingThread>, LedgerError> {
        let inner = &self.shared;
        let start = |_| {
            let writer = inner.backend.writer()?;
            let (jobs, receiver) = sync_channel(inner.limits.waiting_batches.max(1));
            let (clock, skew_ms) = (inner.clock.clone(), inner.limits.clock_skew_ms);
            let clock = DatingClock { clock, skew_ms, place: self.place().to_owned() };
            let growth = Arc::clone(&inner.growth);
            let thread = std::thread::Builder::new()
                .name("ledger-writer".to_owned())
                .spawn(move || writer::run(writer, &receiver, &clock, &growth))
                .map_err(|error| self.failed(&error))?;
            Ok(WritingThread { jobs, thread })
        };
        (0..inner.backend.writers().max(1)).map(start).collect()
    }

    pub(crate) fn failed(&self, error: &dyn fmt::Display) -> LedgerError {
        LedgerError::Failed { place: self.place().to_owned(), reason: error.to_string() }
    }

    /// Queries one consistent view; `None` if the tenant has no log yet.
    pub(crate) fn ask<T>(
        &self,
        tenant: &TenantId,
        mut question: impl FnMut(&mut dyn Reads, &Head) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        let mut answer = None;
        self.shared.backend.read(Some(tenant), &mut |reads| {
            if let Some(head) = reads.head(tenant)? {
                answer = Some(question(reads, &head)?);
            }
            Ok(())
        })?;
        Ok(answer)
    }

    /// Writes outside the writing threads, in a separate transaction: for rare writes.
    pub(crate) fn write(&self, tenant: &TenantId, work: TransactionWork<'_>) -> Result<(), LedgerError> {
        self.write_apart(Some(tenant), false, work)
    }

    /// The same for data that belongs to no tenant and need not survive an event that ends its processes.
    pub(crate) fn write_shared(&self, work: TransactionWork<'_>) -> Result<(), LedgerError> {
        self.write_apart(None, true, work)
    }

    fn write_apart(
        &self,
        tenant: Option<&TenantId>,
        is_leases_only: bool,
        work: TransactionWork<'_>,
    ) -> Result<(), LedgerError> {
        let mut writer = self.spare_writer()?;
        writer.transact(tenant, is_leases_only, work).map_err(|unwritten| match unwritten {
            WriteFailure::Nothing(error) | WriteFailure::Unknown(error) => error,
        })?;
        let mut spare = self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_WRITERS {
            spare.push(writer);
        }
        Ok(())
    }

    fn spare_writer(&self) -> Result<Box<dyn Writer>, LedgerError> {
        let idle = self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.shared.backend.writer(), Ok)
    }

    /// The entry of an id.
    pub fn get(&self, tenant: &TenantId, id: &LedgerId) -> Result<Option<StoredEntry>, LedgerError> {
        Ok(self.view(tenant, |view| view.get(id))?.flatten())
    }

    /// The entry of a client key.
    pub fn get_by_key(&self, tenant: &TenantId, key: &ClientKey) -> Result<Option<StoredEntry>, LedgerError> {
        Ok(self.view(tenant, |view| view.get_by_key(key))?.flatten())
    }

    /// A page of a list.
    pub fn list(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<EntryPage, LedgerError> {
        let page = self.view(tenant, |view| view.list(filter, order, cursor, limit))?;
        Ok(page.unwrap_or(EntryPage { entries: Vec::new(), next: None }))
    }

    /// The dependencies or dependents of an entry, within a limit; `None` if there is no such entry.
    pub fn lineage(
        &self,
        tenant: &TenantId,
        id: &LedgerId,
        direction: Direction,
        depth: usize,
    ) -> Result<Option<LineageEntries>, LedgerError> {
        Ok(self.view(tenant, |view| view.lineage(id, direction, depth))?.flatten())
    }

    /// The facts of a robot's snapshot, at an instant or now (R17); `None` if the tenant has no log.
    pub fn facts(
        &self,
        tenant: &TenantId,
        robot: &RobotId,
        at: Option<Instant>,
        rules: &CoherenceRules,
    ) -> Result<Option<SnapshotFacts>, LedgerError> {
        let _span = info_span!("snapshot", %tenant, %robot).entered();
        self.view(tenant, |view| view.facts(robot, at, rules))
    }

    /// The newest entry of each type of a robot, all that coherence is judged by; `None` if the tenant has no log.
    pub fn newest(
        &self,
        tenant: &TenantId,
        robot: &RobotId,
        rules: &CoherenceRules,
    ) -> Result<Option<NewestEntries>, LedgerError> {
        self.view(tenant, |view| view.newest(robot, None, rules))
    }

    /// Whether the ledger answers, and has the schema of this version.
    pub fn check_readable(&self) -> Result<(), LedgerError> {
        self.shared.backend.read(None, &mut |reads| reads.check_schema())
    }

    /// The sequence number of the newest entry; zero for an empty log.
    pub fn last_seq(&self, tenant: &TenantId) -> Result<Seq, LedgerError> {
        Ok(self.ask(tenant, |_, head| Ok(head.last_seq()))?.unwrap_or(Seq::ZERO))
    }

    /// Every tenant that has a log, by name; only for those who may read the file, or audit the database.
    pub fn tenants(&self) -> Result<Vec<TenantLog>, LedgerError> {
        self.shared.backend.tenants()
    }

    /// How many entries after a place there are of a filter: of a robot, a type and a state, of an execution, or drafts.
    pub fn count(&self, tenant: &TenantId, filter: &Filter, after: Seq) -> Result<u64, LedgerError> {
        Ok(self.view(tenant, |view| view.count(filter, after))?.unwrap_or(0))
    }

    /// The newest draft of a robot that has this many newer ones.
    pub fn draft_after(
        &self,
        tenant: &TenantId,
        robot: &RobotId,
        newer: usize,
    ) -> Result<Option<Seq>, LedgerError> {
        let found = self.ask(tenant, |reads, head| {
            reads.check_schema()?;
            reads.draft_after(head, robot, newer)
        })?;
        Ok(found.flatten())
    }

    /// The robots that have entries, by name, after one.
    pub fn robots(
        &self,
        tenant: &TenantId,
        after: Option<&RobotId>,
        limit: usize,
    ) -> Result<Vec<RobotId>, LedgerError> {
        let robots = self.ask(tenant, |reads, head| {
            let after = after.map_or("", |robot| robot.as_str());
            let robots = reads.values_after(head, "robot", &[], after, limit)?;
            let parsed = robots.iter().map(|robot| RobotId::parse(robot)).collect::<Result<Vec<_>, _>>();
            parsed.map_err(|_| LedgerError::Damaged {
                place: self.place().to_owned(),
                seq: None,
                what: "a robot's name cannot be read back".to_owned(),
            })
        })?;
        Ok(robots.unwrap_or_default())
    }

    /// The last entry of each type of a robot, by type, and whether there are more types than the limit.
    pub fn last_of_types(
        &self,
        tenant: &TenantId,
        robot: &RobotId,
        limit: usize,
    ) -> Result<(Vec<StoredEntry>, bool), LedgerError> {
        let found = self.view(tenant, |view| view.last_of_types(robot, limit))?;
        Ok(found.unwrap_or((Vec::new(), false)))
    }

    /// Watches a tenant's log for growth by this process or another; then read on from the last sequence number seen.
    pub fn watch(&self, tenant: &TenantId) -> LogWatch {
        self.listen_to_others();
        LogWatch::new(&self.shared.growth, tenant)
    }

    /// Watches every log, and says which may have grown.
    pub fn watch_all(&self) -> AllLogsWatch {
        self.listen_to_others();
        AllLogsWatch::new(&self.shared.growth)
    }

    /// A number that changes after every write, by any process. `None` if it is not known without querying
    /// a database, or if the ledger cannot be read: its next read says why.
    pub fn change_mark(&self) -> Option<i64> {
        self.shared.backend.change_mark().ok().flatten()
    }

    /// Starts the thread that waits for other processes' writes, unless it already runs.
    fn listen_to_others(&self) {
        let mut listener = self.shared.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_some() {
            return;
        }
        let (weak, growth) = (Arc::downgrade(&self.shared), Arc::clone(&self.shared.growth));
        let listen = move || {
            while growth.wait_for_follower() {
                let Some(inner) = weak.upgrade() else { break };
                match inner.backend.wait_for_others(FOLLOW_MS) {
                    Ok(true) => growth.announce_others(),
                    Ok(false) => {}
                    // The followers' own reads fail in the same way and report it.
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(FOLLOW_MS)),
                }
            }
        };
        *listener = std::thread::Builder::new().name("ledger-listener".to_owned()).spawn(listen).ok();
    }

    /// Copies the whole ledger to a new file while it is in use, and reports the bytes written and in total. Keys are not copied.
    pub fn backup(
        &self,
        to: &Path,
        report: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<(), LedgerError> {
        self.shared.backend.backup(to, Box::new(report))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.shared
    }

    pub(crate) fn downgrade(&self) -> WeakLedger {
        WeakLedger(Arc::downgrade(&self.shared))
    }
}

/// The refusal of a payload that nests too deep.
pub(crate) fn too_deep(depth: usize) -> ComposeError {
    let reason =
        format!("its payload nests {depth} deep, and at most {MAX_PAYLOAD_DEPTH} are accepted; flatten it");
    ComposeError { what: "the entry", reason }
}

/// Refuses reserved entries.
fn unreserved(batch: &[Draft]) -> Result<(), AppendError> {
    let mut found = batch.iter().map(reserved_in).enumerate();
    match found.find_map(|(position, reserved)| Some((position, reserved?))) {
        Some((position, (member, value))) => {
            Err(AppendError::Refused { position, refusal: EntryRefusal::Reserved { member, value } })
        }
        None => Ok(()),
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.growth.close();
        self.heart.stop();
        let writers = self.writers.take().unwrap_or_default();
        for WritingThread { jobs, thread } in writers {
            drop(jobs);
            // A writer that panicked has dropped its answers, so callers learn that the ledger was closed.
            let _ = thread.join();
        }
        // The listener may hold the last reference itself; then this code runs on that thread.
        let listener = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener
            && listener.thread().id() != std::thread::current().id()
        {
            let _ = listener.join();
        }
    }
}
