//! Readers of logs for event streams: one follower for each tenant that has a stream, however many streams there are. It reads
//! new entries once, into a [`Ring`] that the streams share, and wakes them; earlier entries they read themselves.
//!
//! A follower reads when its tenant's log may have grown, and every few seconds without a notification: one from another
//! process can be lost. It ends with its last stream.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use crealeph_contracts::scalar::{KeyId, TenantId};
use crealeph_ledger::{Cursor, Filter, Ledger, Order, Seq};
use crealeph_runtime::entries::{PageQuery, bounded_page};
use futures_util::future::{Either, select};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::app::App;
use crate::problem::{Problem, ProblemKind};
use crate::ring::{EntryFrame, Ring};
use crate::settings::ServerBounds;

/// How long the thread that watches the ledger waits before it looks whether the server stops.
const WATCH_WAIT: Duration = Duration::from_millis(500);
/// How long a follower that hears nothing waits before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long it waits when the ledger cannot be read now.
const RETRY: Duration = Duration::from_millis(500);
/// How often keys are checked for validity; a revocation is an entry, and noticed as such.
const KEY_CHECK: Duration = Duration::from_secs(5);
/// How many keys are remembered before those that were not asked about for long are dropped.
const SWEEP_AT: usize = 1_024;
/// How many entries are read at a time, and how many bytes of payloads.
pub(crate) const PAGE_ENTRIES: usize = 100;
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// The followers of all tenants that have streams.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<FollowerTable>);

#[derive(Debug, Default)]
struct FollowerTable {
    by_tenant: HashMap<TenantId, (Weak<Follower>, Arc<Notify>)>,
    /// Whether the thread runs that wakes them.
    is_watching: bool,
}

/// How far a follower has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowerHead {
    At(Seq),
    /// The log cannot be read, and trying again does not help.
    Failed,
}

/// Whether a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCheck {
    /// It was checked a moment ago.
    Known(bool),
    /// The caller is to ask the ledger.
    Due,
}

/// Reads one tenant's log for its streams.
#[derive(Debug)]
pub(crate) struct Follower {
    tenant_id: TenantId,
    pub ring: RwLock<Ring>,
    head: watch::Sender<FollowerHead>,
    wake: Arc<Notify>,
    keys: Mutex<HashMap<KeyId, (Instant, bool)>>,
    table: Arc<Followers>,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, FollowerTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The follower of a tenant; a new one if it has none. Called on a thread that may block.
    pub(crate) fn follow(app: &Arc<App>, tenant: &TenantId) -> Result<Arc<Follower>, Problem> {
        let table = &app.followers;
        table.watch(&app.ledger, &app.stopping)?;
        let existing =
            |known: &FollowerTable| known.by_tenant.get(tenant).and_then(|(known, _)| known.upgrade());
        if let Some(follower) = existing(&table.lock()) {
            return Ok(follower);
        }
        let start = app.ledger.last_seq(tenant)?;
        let mut known = table.lock();
        if let Some(follower) = existing(&known) {
            return Ok(follower);
        }
        let wake = Arc::new(Notify::new());
        let follower = Arc::new(Follower {
            tenant_id: tenant.clone(),
            ring: RwLock::new(Ring::new(start)),
            head: watch::Sender::new(FollowerHead::At(start)),
            wake: Arc::clone(&wake),
            keys: Mutex::default(),
            table: Arc::clone(table),
        });
        known.by_tenant.insert(tenant.clone(), (Arc::downgrade(&follower), Arc::clone(&wake)));
        drop(known);
        tokio::spawn(run(Arc::clone(app), Arc::downgrade(&follower), wake));
        Ok(follower)
    }

    /// Starts the one thread that waits for the ledger and wakes those whose log may have grown.
    fn watch(self: &Arc<Self>, ledger: &Ledger, stopping: &watch::Receiver<bool>) -> Result<(), Problem> {
        let mut table = self.lock();
        if table.is_watching {
            return Ok(());
        }
        let (mut logs, stopping, own) = (ledger.watch_all(), stopping.clone(), Arc::clone(self));
        let watch = move || {
            while !*stopping.borrow() {
                let grown = logs.wait(WATCH_WAIT);
                if !grown.is_empty() {
                    let table = own.lock();
                    let followers = table.by_tenant.iter().filter(|(tenant, _)| grown.includes(tenant));
                    followers.for_each(|(_, (_, wake))| wake.notify_one());
                }
            }
        };
        let thread = std::thread::Builder::new().name("event-follower".to_owned()).spawn(watch);
        thread.map_err(|error| {
            tracing::error!("no thread for the event streams: {error}");
            Problem::new(ProblemKind::Overloaded, "the server cannot follow its ledger now; try again")
        })?;
        table.is_watching = true;
        Ok(())
    }

    /// How much each ring may hold: all together stay within the bound.
    fn ring_bytes(&self, bounds: &ServerBounds) -> usize {
        ServerBounds::size(bounds.max_stream_buffer_bytes) / self.lock().by_tenant.len().max(1)
    }
}

impl Follower {
    /// What says how far it has read.
    pub(crate) fn head(&self) -> watch::Receiver<FollowerHead> {
        self.head.subscribe()
    }

    /// Whether a key still counts, as far as that is known; one of all that ask has to find out.
    pub(crate) fn check_key(&self, key: &KeyId, now: Instant) -> KeyCheck {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= SWEEP_AT {
            keys.retain(|_, (at, _)| now.saturating_duration_since(*at) < KEY_CHECK);
        }
        match keys.get(key).copied() {
            Some((at, counts)) if now.saturating_duration_since(at) < KEY_CHECK => KeyCheck::Known(counts),
            before => {
                // The others go by what was known until the answer is there.
                keys.insert(key.clone(), (now, before.is_none_or(|(_, counts)| counts)));
                KeyCheck::Due
            }
        }
    }

    /// Remembers what the ledger said of a key.
    pub(crate) fn key_checked(&self, key: &KeyId, counts: bool, now: Instant) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(key.clone(), (now, counts));
    }

    /// Reads what is new, a page at a time; true if there is more.
    async fn read(&self, app: &App) -> Result<bool, Problem> {
        let after = self.ring.read().unwrap_or_else(PoisonError::into_inner).end();
        let query = PageQuery {
            filter: Filter::default(),
            order: Order::OldestFirst,
            cursor: Some(Cursor::after(after)),
            limit: PAGE_ENTRIES,
            max_bytes: PAGE_BYTES,
        };
        let (ledger, tenant) = (app.ledger.clone(), self.tenant_id.clone());
        let read = move || {
            let page = bounded_page(&ledger, &tenant, &query, |_| true)?;
            let has_more = page.next.is_some();
            Ok((page.entries.into_iter().map(EntryFrame::render).collect::<Vec<_>>(), has_more))
        };
        let (frames, has_more) = app.blocking(read).await?;
        let Some((newest, at)) = frames.last().map(|frame| (frame.entry.seq, frame.entry.created_at)) else {
            return Ok(has_more);
        };
        app.metrics.note_event_lag(app.ledger.now().get() - at.get());
        let room = self.table.ring_bytes(&app.settings.bounds);
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        frames.into_iter().for_each(|frame| ring.push(frame, room));
        drop(ring);
        self.head.send_replace(FollowerHead::At(newest));
        Ok(has_more)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        // Another stream may have found this one gone, and started the next.
        if table.by_tenant.get(&self.tenant_id).is_some_and(|(known, _)| known.strong_count() == 0) {
            table.by_tenant.remove(&self.tenant_id);
        }
        drop(table);
        self.wake.notify_one();
    }
}

/// Reads until no one follows any more or the server stops.
async fn run(app: Arc<App>, follower: Weak<Follower>, wake: Arc<Notify>) {
    let mut stopping = app.stopping.clone();
    while !*stopping.borrow_and_update() {
        let Some(own) = follower.upgrade() else { return };
        let outcome = own.read(&app).await;
        match outcome {
            Ok(true) => continue,
            Ok(false) => {}
            Err(problem) if problem.status().as_u16() == 503 => {
                drop(own);
                sleep(RETRY).await;
                continue;
            }
            Err(_) => {
                own.head.send_replace(FollowerHead::Failed);
                return;
            }
        }
        drop(own);
        let (grown, stops) = (pin!(wake.notified()), pin!(stopping.changed()));
        if let Ok(Either::Right((Err(_), _))) = timeout(LOOK_AGAIN, select(grown, stops)).await {
            return;
        }
    }
}
