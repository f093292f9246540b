//! Delivers webhooks while a server runs: at least once and in the order of the log for each, from the position that its
//! subscription has. A webhook is delivered by the process that holds its lease; another takes over when that one dies.
//! The position moves after the receiver accepted an entry, so if a process dies in between, the entry is sent again, with the same id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crealeph_contracts::api_key::ACCESS;
use crealeph_contracts::scalar::{Name, TenantId};
use crealeph_contracts::webhook::WebhookCreation;
use crealeph_ledger::{
    Cursor, EntryPage, Filter, Lease, LeaseClaim, Ledger, LedgerError, Order, Seq, StoredEntry, Subscription,
};
use tracing::{info, warn};

use super::delivery::{Courier, Undelivered};
use super::message::Message;
use super::progress::Progress;
use super::settings::WebhookSettings;
use super::{LEASE_TIME, WebhookError, find_in, lease_name};
use crate::entries::{PageQuery, bounded_page};

/// How often it is looked for what became due, for tenants with a first webhook, and at all of them whatever was noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LIST_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AT_ALL: Duration = Duration::from_secs(10);
/// How much time is between two looks at least.
const PAUSE: Duration = Duration::from_millis(20);
/// How many entries are read at a time, how many bytes of payloads, and how many are sent before others get their turn.
const PAGE_ENTRIES: usize = 50;
const PAGE_BYTES: usize = 1 << 20;
const TURN_DELIVERIES: usize = 200;
/// After this time a subscription without a webhook is what a process left that died while it created one.
const ABANDONED_MS: i64 = 600_000;

/// Delivers until it is dropped.
#[derive(Debug)]
pub struct Deliverer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    settings: WebhookSettings,
    courier: Courier,
    holder: Name,
    is_stopped: AtomicBool,
    under_way: Mutex<UnderWay>,
}

/// What is being delivered, and what to look at when that is done.
#[derive(Debug, Default)]
struct UnderWay {
    webhooks: BTreeSet<(TenantId, Name)>,
    again: BTreeSet<TenantId>,
}

impl Deliverer {
    /// Begins to deliver the webhooks of all tenants of a ledger.
    ///
    /// # Errors
    /// When the authorities' certificates cannot be read, or the system refuses a thread.
    pub fn start(ledger: Ledger, settings: WebhookSettings) -> Result<Deliverer, WebhookError> {
        let courier = Courier::new(&settings).map_err(WebhookError::Certificates)?;
        let holder = Name::parse(&format!("webhooks of process {}", std::process::id()))?;
        let is_stopped = AtomicBool::new(false);
        let under_way = Mutex::default();
        let shared = Arc::new(Shared { ledger, settings, courier, holder, is_stopped, under_way });
        let following = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("webhooks".to_owned()).spawn(move || following.follow());
        let thread = thread.map_err(|error| WebhookError::Thread(error.to_string()))?;
        Ok(Deliverer { shared, thread: Some(thread) })
    }
}

impl Drop for Deliverer {
    /// What is being sent is finished or sent again by the next process.
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the tenants whose logs have grown, whose next try is due, and now and then at all.
    fn follow(self: Arc<Self>) {
        let mut watch = self.ledger.watch_all();
        let mut due: BTreeMap<TenantId, Instant> = BTreeMap::new();
        let mut known: BTreeSet<TenantId> = BTreeSet::new();
        let (mut listed_at, mut looked_at_all) = (None, None);
        let mut logged = None;
        let is_over = |since: Option<Instant>, time| since.is_none_or(|at: Instant| at.elapsed() >= time);
        while !self.is_stopped() {
            let now = Instant::now();
            let mut tenants = std::mem::take(&mut self.under_way().again);
            tenants.extend(due.iter().filter(|(_, at)| **at <= now).map(|(tenant, _)| tenant.clone()));
            if is_over(listed_at, LIST_AGAIN) {
                match self.ledger.subscribed_tenants() {
                    Ok(all) => {
                        tenants.extend(all.iter().filter(|tenant| !known.contains(*tenant)).cloned());
                        known = all.into_iter().collect();
                        logged = None;
                    }
                    // A ledger of an older schema is so until it is migrated: said once.
                    Err(error) if logged.as_ref() == Some(&error) => {}
                    Err(error) => {
                        warn!("the webhooks cannot be read: {error}");
                        logged = Some(error);
                    }
                }
                listed_at = Some(now);
            }
            if is_over(looked_at_all, LOOK_AT_ALL) {
                tenants.extend(known.iter().cloned());
                looked_at_all = Some(now);
            }
            for tenant in tenants {
                due.remove(&tenant);
                match self.look(&tenant) {
                    Ok(Some(wait)) => _ = due.insert(tenant, now + wait),
                    Ok(None) => {}
                    Err(error) => {
                        warn!(%tenant, "the webhooks of a tenant cannot be read: {error}");
                        due.insert(tenant, now + LIST_AGAIN);
                    }
                }
            }
            std::thread::sleep(PAUSE);
            let next =
                due.values().min().map_or(LOOK_AGAIN, |at| at.saturating_duration_since(Instant::now()));
            let grown = watch.wait(next.min(LOOK_AGAIN));
            let grown = known.iter().filter(|tenant| grown.includes(tenant)).cloned();
            self.under_way().again.extend(grown);
        }
    }

    /// Starts what is due of a tenant; how long until something is, if that is known.
    fn look(self: &Arc<Self>, tenant: &TenantId) -> Result<Option<Duration>, LedgerError> {
        let subscriptions = self.ledger.subscriptions(tenant)?;
        if subscriptions.is_empty() {
            return Ok(None);
        }
        let (last, now) = (self.ledger.last_seq(tenant)?, self.ledger.now());
        let mut next: Option<Duration> = None;
        for subscription in subscriptions.iter().filter(|one| one.position < last) {
            let progress = Progress::read(subscription);
            if progress.is_due(now) {
                if !self.start(tenant, &subscription.id) {
                    next = Some(LOOK_AGAIN);
                }
            } else if let Some(at) = progress.next_attempt_at.filter(|_| progress.disabled_at.is_none()) {
                let wait = Duration::from_millis(at.saturating_sub(now.get()).unsigned_abs());
                next = Some(next.map_or(wait, |earlier| earlier.min(wait)));
            }
        }
        Ok(next)
    }

    /// Delivers a webhook on a separate thread; false if it or too many others are being delivered.
    fn start(self: &Arc<Self>, tenant: &TenantId, id: &Name) -> bool {
        let webhook = (tenant.clone(), id.clone());
        {
            let mut under_way = self.under_way();
            let of_tenant = under_way.webhooks.iter().filter(|(of, _)| of == tenant).count() as u64;
            let is_full = under_way.webhooks.len() as u64 >= self.settings.max_webhook_deliveries
                || of_tenant >= self.settings.max_webhook_deliveries_per_tenant;
            if is_full || !under_way.webhooks.insert(webhook.clone()) {
                return false;
            }
        }
        let (shared, delivered) = (Arc::clone(self), webhook.clone());
        let run = move || {
            let (tenant, id) = &delivered;
            if let Err(error) = shared.deliver(tenant, id) {
                warn!(%tenant, webhook = %id, "a webhook cannot be delivered now: {error}");
                std::thread::sleep(LIST_AGAIN);
            }
            let mut under_way = shared.under_way();
            under_way.webhooks.remove(&delivered);
            under_way.again.insert(delivered.0.clone());
        };
        let started = std::thread::Builder::new().name("webhook".to_owned()).spawn(run);
        if let Err(error) = &started {
            warn!("no thread for a webhook: {error}");
            self.under_way().webhooks.remove(&webhook);
        }
        started.is_ok()
    }

    /// Delivers a webhook as long as its turn lasts, if no other process does.
    fn deliver(&self, tenant: &TenantId, id: &Name) -> Result<(), LedgerError> {
        let Ok(name) = lease_name(id) else { return Ok(()) };
        let LeaseClaim::Taken(lease) = self.ledger.take_lease(tenant, &name, &self.holder, LEASE_TIME)?
        else {
            std::thread::sleep(LOOK_AGAIN);
            return Ok(());
        };
        let heart = self.ledger.keep_lease(&lease)?;
        let delivered = Turn { shared: self, tenant, lease: &lease, sent: 0 }.run(id);
        drop(heart);
        self.ledger.release_lease(&lease)?;
        delivered
    }
}

/// The deliveries of one webhook under one lease.
struct Turn<'a> {
    shared: &'a Shared,
    tenant: &'a TenantId,
    lease: &'a Lease,
    sent: usize,
}

impl Turn<'_> {
    fn run(mut self, id: &Name) -> Result<(), LedgerError> {
        let ledger = &self.shared.ledger;
        while self.sent < TURN_DELIVERIES && !self.shared.is_stopped() {
            // Read again for each page, under the lease: it may have been deleted, or moved by another process before.
            let subscription = ledger.subscriptions(self.tenant)?.into_iter().find(|one| one.id == *id);
            let Some(subscription) = subscription else { return Ok(()) };
            let webhook = ledger.view(self.tenant, |view| find_in(view, id))?.flatten();
            let progress = Progress::read(&subscription);
            let webhook = match webhook {
                Some(webhook) if webhook.is_deleted => return ledger.remove_subscription(self.tenant, id),
                Some(webhook) => webhook,
                None if progress.asked_at.saturating_add(ABANDONED_MS) < ledger.now().get() => {
                    return ledger.remove_subscription(self.tenant, id);
                }
                None => {
                    // It is about to be created.
                    std::thread::sleep(LIST_AGAIN);
                    return Ok(());
                }
            };
            if !progress.is_due(ledger.now()) || !self.page(&webhook.creation, subscription, progress)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Delivers the next page; whether there may be more.
    fn page(
        &mut self,
        webhook: &WebhookCreation,
        subscription: Subscription,
        mut progress: Progress,
    ) -> Result<bool, LedgerError> {
        let Shared { ledger, settings, courier, .. } = self.shared;
        let (page, reached) = self.read(webhook, subscription.position)?;
        let id = &subscription.id;
        let max_bytes = usize::try_from(settings.max_webhook_bytes).unwrap_or(usize::MAX);
        for entry in &page.entries {
            if self.shared.is_stopped() {
                return Ok(false);
            }
            let message = Message::of_entry(entry, webhook.payloads.unwrap_or(false), max_bytes);
            let sent = courier.deliver(webhook.url.as_str(), &subscription.secret, &message, ledger.now());
            self.sent += 1;
            match sent {
                Ok(_) => progress.delivered(ledger.now()),
                Err(undelivered) => {
                    self.fail(id, &mut progress, undelivered);
                    let position = entry.seq.previous().max(subscription.position);
                    ledger.move_subscription(self.lease, id, position, progress.to_notes())?;
                    return Ok(false);
                }
            }
            ledger.move_subscription(self.lease, id, entry.seq, progress.to_notes())?;
        }
        if reached > subscription.position {
            ledger.move_subscription(self.lease, id, reached, progress.to_notes())?;
        }
        Ok(page.next.is_some())
    }

    /// What comes after a position and is for the webhook, and the place up to which the log was read.
    fn read(&self, webhook: &WebhookCreation, position: Seq) -> Result<(EntryPage, Seq), LedgerError> {
        let ledger = &self.shared.ledger;
        // What is appended while the page is read comes with the next one.
        let end = ledger.last_seq(self.tenant)?;
        let query = PageQuery {
            filter: Filter { robot_id: webhook.robot_id.clone(), ..Filter::default() },
            order: Order::OldestFirst,
            cursor: Some(Cursor::after(position)),
            limit: PAGE_ENTRIES,
            max_bytes: PAGE_BYTES,
        };
        let page = bounded_page(ledger, self.tenant, &query, |entry| is_for(webhook, entry))?;
        let reached = page.next.map_or(end, Cursor::seq);
        let newest = page.entries.last().map_or(position, |entry| entry.seq);
        Ok((page, reached.max(newest)))
    }

    fn fail(&self, id: &Name, progress: &mut Progress, undelivered: Undelivered) {
        let Shared { ledger, settings, .. } = self.shared;
        let Undelivered { why, is_gone, retry_after } = undelivered;
        let now = ledger.now();
        let most = Duration::from_millis(settings.webhook_max_retry_ms);
        let wait = jittered(settings.backoff(progress.failures.saturating_add(1)));
        let wait = wait.max(retry_after.unwrap_or_default()).min(most);
        info!(tenant = %self.tenant, webhook = %id, "a webhook was not delivered: {why}");
        progress.failed(now, why, i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let failing_ms = now.get().saturating_sub(progress.failing_since.unwrap_or(now.get()));
        let most_ms =
            i64::try_from(settings.webhook_disable_hours).unwrap_or(i64::MAX).saturating_mul(3_600_000);
        if is_gone || failing_ms >= most_ms {
            progress.disable(now);
            warn!(tenant = %self.tenant, webhook = %id, "a webhook was disabled");
        }
    }
}

/// Whether a webhook gets an entry: of its types, and of those about access only if it names them.
fn is_for(webhook: &WebhookCreation, entry: &StoredEntry) -> bool {
    let content = &entry.content;
    match &webhook.events {
        Some(events) => events.as_slice().contains(&content.kind),
        None => content.module.as_str() != ACCESS.as_str(),
    }
}

/// Something between the half of a time and the whole, so that receivers that failed together are not tried together.
fn jittered(time: Duration) -> Duration {
    let mut byte = [0];
    // Without random numbers all wait equally long.
    let _ = getrandom::fill(&mut byte);
    time.mul_f64(1.0 - f64::from(byte[0]) / 512.0)
}
