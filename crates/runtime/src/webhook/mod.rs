//! Webhooks: created, listed, enabled, deleted and tested here; delivered by [`Deliverer`]. Each of these except a test is an entry
//! of the tenant's log. Its secret, and how far it was delivered, are a subscription next to the log: a secret that signs
//! cannot be stored as a digest, so it is in no entry, no export and no log line, and is shown once.

mod delivery;
mod message;
mod progress;
mod settings;
mod worker;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ClientKey, IdentifierError, Literal, Name, TenantId, Text};
use crealeph_contracts::webhook::{
    WEBHOOK_CREATION, WEBHOOK_DELETION, WEBHOOK_ENABLEMENT, WebhookCreation, WebhookDeletion,
    WebhookEnablement, WebhookEntry, WebhookRequest, creation_key, deletion_key,
};
use crealeph_ledger::{
    AppendError, Cursor, Lease, LeaseClaim, Ledger, LedgerError, LogView, Millis, Seq, StoredEntry,
    Subscription,
};
use serde::{Deserialize, Serialize};

use delivery::{Courier, Endpoint};
use message::{Message, SECRET_PREFIX};
pub use progress::DeliveryReport;
use progress::Progress;
pub use settings::WebhookSettings;
pub use worker::Deliverer;

use crate::grants::{
    GrantEntry, GrantEntryError, append_grant, check_length, find_own, grant_draft, id_and_secret,
    id_of_request, list_grants, once,
};

/// How long the webhook of a process that died is no one's.
const LEASE_TIME: Duration = Duration::from_secs(5);
/// How long another process is waited for that delivers or creates a webhook, and how often it is looked.
const WAIT_FOR_LEASE: Duration = Duration::from_secs(10);
const LOOK_FOR_LEASE: Duration = Duration::from_millis(100);

/// How many types a webhook can name.
const MAX_EVENTS: usize = 64;

/// Why a webhook was not created, listed, deleted or tried.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// There is no such webhook.
    #[error("tenant `{tenant}` has no webhook `{id}`")]
    NoWebhook {
        /// The webhook.
        id: Name,
        /// The tenant.
        tenant: TenantId,
    },
    /// The URL may not be called.
    #[error("the URL `{url}` {why}")]
    BadUrl {
        /// The URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The log has no such entry to start after.
    #[error("the log has {last} entries, so nothing can start after entry {after}")]
    BadStart {
        /// The requested position.
        after: Seq,
        /// The newest.
        last: Seq,
    },
    /// The tenant has as many as it may.
    #[error("the tenant has {limit} webhooks, and `max_webhooks` allows no more")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// It names too many types.
    #[error("the list of types is {0} long and the limit is {MAX_EVENTS}; shorten it")]
    TooManyEvents(usize),
    /// The client has named another request so.
    #[error("the client key `{0}` was used for another request")]
    OtherRequest(ClientKey),
    /// Another process delivers or creates it all the time.
    #[error("webhook `{0}` is being delivered or created by another process")]
    Busy(Name),
    /// The authorities' certificates cannot be used.
    #[error("{0}")]
    Certificates(String),
    /// There is no thread to deliver with.
    #[error("the system provides no thread for webhooks: {0}")]
    Thread(String),
    /// Its entry was not appended or read.
    #[error(transparent)]
    Entry(GrantEntryError),
}

impl WebhookError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            WebhookError::NoWebhook { .. } => "unknown_webhook",
            WebhookError::BadUrl { .. } => "bad_webhook_url",
            WebhookError::BadStart { .. } => "bad_start",
            WebhookError::TooMany { .. } => "too_many_webhooks",
            WebhookError::TooManyEvents(_) => "too_large",
            WebhookError::OtherRequest(_) => "IDEMPOTENCY_CONFLICT",
            WebhookError::Busy(_) => "webhook_busy",
            WebhookError::Certificates(_) => "bad_certificates",
            WebhookError::Thread(_) => "server_failed",
            WebhookError::Entry(error) => error.code(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            WebhookError::NoWebhook { .. } => {
                Some("list the webhooks with `crealeph webhook list`, and check --tenant".into())
            }
            WebhookError::TooMany { .. } => Some("delete one, or raise `max_webhooks` under [server]".into()),
            WebhookError::Busy(_) => Some("try again in a few seconds".into()),
            WebhookError::Certificates(_) => Some("check `webhook_ca` under [server]".into()),
            WebhookError::Entry(error) => error.hint(),
            _ => None,
        }
    }

    /// Whether the request is at fault, not the ledger or the machine.
    pub fn is_refusal(&self) -> bool {
        match self {
            WebhookError::NoWebhook { .. }
            | WebhookError::BadUrl { .. }
            | WebhookError::BadStart { .. }
            | WebhookError::TooMany { .. }
            | WebhookError::TooManyEvents(_)
            | WebhookError::OtherRequest(_) => true,
            WebhookError::Busy(_) | WebhookError::Certificates(_) | WebhookError::Thread(_) => false,
            WebhookError::Entry(error) => error.is_refusal(),
        }
    }
}

impl<E> From<E> for WebhookError
where
    GrantEntryError: From<E>,
{
    fn from(error: E) -> Self {
        WebhookError::Entry(error.into())
    }
}

impl GrantEntry for WebhookEntry {
    fn read_payload(kind: &str, payload: &JsonObject) -> Option<Self> {
        WebhookEntry::read(kind, payload).ok()
    }

    fn client_key(&self) -> String {
        self.client_key()
    }
}

/// A webhook as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookReport {
    /// Its id.
    pub webhook_id: String,
    /// The tenant.
    pub tenant_id: String,
    /// Where it is delivered to.
    pub url: String,
    /// The types of entries that are sent; absent for all but those about access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// The robot that it is restricted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robot_id: Option<String>,
    /// Whether payloads are sent along.
    pub payloads: bool,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was created.
    pub created_at: String,
    /// `active`, `failing`, `disabled` or `deleted`.
    pub state: Cow<'static, str>,
    /// Why it fails or was disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The entry that creates it.
    pub entry: String,
}

/// A webhook that was created, with its secret if that was just now: the only time that it is there.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedWebhook {
    /// What deliveries are signed with; absent if the same request had created the webhook before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The webhook.
    #[serde(flatten)]
    pub report: WebhookReport,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// The webhook.
    pub webhook_id: String,
    /// Whether the receiver took it.
    pub delivered: bool,
    /// The status that it answered with, if it took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Creates a webhook, unless the same request of the same client key has created it before. It gets what is appended after an
/// entry: the newest, unless an earlier one is given.
///
/// # Errors
/// When the URL may not be called, a bound is hit, the client key was used for another request, or the ledger cannot be written.
pub fn create_webhook(
    ledger: &Ledger,
    tenant: &TenantId,
    request: WebhookRequest,
    after: Option<Seq>,
    settings: &WebhookSettings,
) -> Result<CreatedWebhook, WebhookError> {
    let WebhookRequest { url, events, robot_id, payloads, label, client_key } = request;
    Endpoint::parse(url.as_str(), settings)
        .map_err(|why| WebhookError::BadUrl { url: url.as_str().to_owned(), why })?;
    check_length("the label", label.as_ref())?;
    let count = events.as_ref().map_or(0, |events| events.as_slice().len());
    if count > MAX_EVENTS {
        return Err(WebhookError::TooManyEvents(count));
    }
    let last = ledger.last_seq(tenant)?;
    let position = after.unwrap_or(last);
    if position > last {
        return Err(WebhookError::BadStart { after: position, last });
    }
    let (id, secret) = id_and_secret()?;
    let id = client_key.as_ref().map_or(id, |key| id_of_request(WEBHOOK_CREATION, key));
    let webhook_id = Name::parse(&id)?;
    let secret = format!("{SECRET_PREFIX}{}", STANDARD.encode(secret));
    let notes = Progress { asked_at: ledger.now().get(), ..Progress::default() }.to_notes();
    let subscription = Subscription { id: webhook_id.clone(), secret: secret.clone(), position, notes };
    let creation = WebhookCreation { webhook_id: webhook_id.clone(), url, events, robot_id, payloads, label };
    let most = usize::try_from(settings.max_webhooks).unwrap_or(usize::MAX);
    let is_new = under_lease(ledger, tenant, &webhook_id, |lease| {
        let found = ledger.view(tenant, |view| find_in(view, &webhook_id))?.flatten();
        match (found, client_key) {
            (None, _) => create_under((lease, ledger, tenant), subscription, most, creation).map(|()| true),
            (Some(found), Some(key)) if found.creation != creation => Err(WebhookError::OtherRequest(key)),
            (Some(_), _) => Ok(false),
        }
    })?;
    let report = get_webhook(ledger, tenant, &webhook_id)?;
    Ok(CreatedWebhook { secret: is_new.then_some(secret), report })
}

/// First the secret, then the entry by which the webhook counts: a secret without one is no one's.
fn create_under(
    (lease, ledger, tenant): (&Lease, &Ledger, &TenantId),
    subscription: Subscription,
    most: usize,
    creation: WebhookCreation,
) -> Result<(), WebhookError> {
    let id = creation.webhook_id.clone();
    // What a process left that died while it created the webhook.
    ledger.remove_subscription(tenant, &id)?;
    ledger.add_subscription(tenant, subscription, most).map_err(|error| match error {
        LedgerError::Beyond { limit, .. } => WebhookError::TooMany { limit },
        other => other.into(),
    })?;
    let draft = draft_of(&WebhookEntry::Creation(creation))?;
    match ledger.append_under(lease, vec![(None, draft)]) {
        Ok(_) => Ok(()),
        // The secret that is there is of the process that has the lease now.
        Err(error @ AppendError::Ledger(LedgerError::LeaseLost { .. })) => Err(error.into()),
        Err(error) => {
            ledger.remove_subscription(tenant, &id)?;
            Err(error.into())
        }
    }
}

/// Does something while no other process delivers, creates or enables this webhook.
fn under_lease<T>(
    ledger: &Ledger,
    tenant: &TenantId,
    id: &Name,
    act: impl FnOnce(&Lease) -> Result<T, WebhookError>,
) -> Result<T, WebhookError> {
    let holder = Name::parse(&format!("process {}", std::process::id()))?;
    let name = lease_name(id)?;
    let began = Instant::now();
    let lease = loop {
        match ledger.take_lease(tenant, &name, &holder, LEASE_TIME)? {
            LeaseClaim::Taken(lease) => break lease,
            LeaseClaim::Held(_) if began.elapsed() < WAIT_FOR_LEASE => std::thread::sleep(LOOK_FOR_LEASE),
            LeaseClaim::Held(_) => return Err(WebhookError::Busy(id.clone())),
        }
    };
    let done = act(&lease);
    ledger.release_lease(&lease)?;
    done
}

/// The lease under which a webhook is delivered, created or enabled.
fn lease_name(id: &Name) -> Result<Name, IdentifierError> {
    Name::parse(&format!("webhook:{id}"))
}

/// Enables a webhook that was disabled: it is delivered from where it stopped. One that is not disabled stays as it is.
///
/// # Errors
/// When there is no such webhook, or the ledger cannot be written.
pub fn enable_webhook(
    ledger: &Ledger,
    tenant: &TenantId,
    id: &Name,
    reason: Option<Text>,
) -> Result<WebhookReport, WebhookError> {
    check_length("the reason", reason.as_ref())?;
    find(ledger, tenant, id)?;
    under_lease(ledger, tenant, id, |lease| {
        let webhook = find(ledger, tenant, id)?;
        let subscriptions = ledger.subscriptions(tenant)?;
        let no_webhook = || WebhookError::NoWebhook { id: id.clone(), tenant: tenant.clone() };
        let subscription = webhook.subscription(&subscriptions).ok_or_else(no_webhook)?;
        let progress = Progress::read(subscription);
        let Some(disabled_at) = progress.disabled_at else { return Ok(()) };
        let disabled_at = Timestamp::from(Millis::new(disabled_at).instant());
        let enablement = WebhookEnablement { webhook_id: id.clone(), disabled_at, reason };
        let draft = draft_of(&WebhookEntry::Enablement(enablement))?;
        // A process that died before it moved the subscription may have had another reason.
        once(ledger.append_under(lease, vec![(None, draft)]))?;
        Ok(ledger.move_subscription(lease, id, subscription.position, progress.enable().to_notes())?)
    })?;
    get_webhook(ledger, tenant, id)
}

/// Deletes a webhook and its secret. One that is deleted already stays as it is.
///
/// # Errors
/// When there is no such webhook, or the ledger cannot be written.
pub fn delete_webhook(
    ledger: &Ledger,
    tenant: &TenantId,
    id: &Name,
    reason: Option<Text>,
) -> Result<WebhookReport, WebhookError> {
    check_length("the reason", reason.as_ref())?;
    let found = find(ledger, tenant, id)?;
    if !found.is_deleted {
        let deletion = WebhookEntry::Deletion(WebhookDeletion { webhook_id: id.clone(), reason });
        once(append_grant(ledger, tenant, draft_of(&deletion)?))?;
    }
    ledger.remove_subscription(tenant, id)?;
    get_webhook(ledger, tenant, id)
}

/// A page of a tenant's webhooks in the order in which they were created, deleted ones too, and where the list continues.
///
/// # Errors
/// When the ledger cannot be read.
pub fn list_webhooks(
    ledger: &Ledger,
    tenant: &TenantId,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<WebhookReport>, Option<Cursor>), WebhookError> {
    let subscriptions = ledger.subscriptions(tenant)?;
    let find = |view: &mut LogView<'_>, entry: WebhookEntry| match entry {
        WebhookEntry::Creation(creation) => find_in(view, &creation.webhook_id),
        WebhookEntry::Deletion(_) | WebhookEntry::Enablement(_) => Ok(None),
    };
    let (found, next) = list_grants(ledger, tenant, WEBHOOK_CREATION, (cursor, limit), find)?;
    Ok((found.iter().map(|webhook| webhook.report(tenant, &subscriptions)).collect(), next))
}

/// A webhook.
///
/// # Errors
/// When there is no such webhook, or the ledger cannot be read.
pub fn get_webhook(ledger: &Ledger, tenant: &TenantId, id: &Name) -> Result<WebhookReport, WebhookError> {
    Ok(find(ledger, tenant, id)?.report(tenant, &ledger.subscriptions(tenant)?))
}

/// How far a webhook was delivered, and the result of its last tries.
///
/// # Errors
/// When there is no such webhook, or the ledger cannot be read.
pub fn deliveries(ledger: &Ledger, tenant: &TenantId, id: &Name) -> Result<DeliveryReport, WebhookError> {
    let webhook = find(ledger, tenant, id)?;
    let subscriptions = ledger.subscriptions(tenant)?;
    let subscription = webhook.subscription(&subscriptions);
    let no_webhook = || WebhookError::NoWebhook { id: id.clone(), tenant: tenant.clone() };
    let subscription = subscription.ok_or_else(no_webhook)?;
    Ok(Progress::read(subscription).report(subscription, ledger.last_seq(tenant)?))
}

/// Sends an event that is about no entry, now, and reports the result. What waits is not affected.
///
/// # Errors
/// When there is no such webhook, or the ledger cannot be read.
pub fn test_webhook(
    ledger: &Ledger,
    tenant: &TenantId,
    id: &Name,
    settings: &WebhookSettings,
) -> Result<TestReport, WebhookError> {
    let webhook = find(ledger, tenant, id)?;
    let subscriptions = ledger.subscriptions(tenant)?;
    let no_webhook = || WebhookError::NoWebhook { id: id.clone(), tenant: tenant.clone() };
    let subscription = webhook.subscription(&subscriptions).ok_or_else(no_webhook)?;
    let courier = Courier::new(settings).map_err(WebhookError::Certificates)?;
    let now = ledger.now();
    let message = Message::test(id.as_str(), ledger.new_id()?.as_id().as_str(), &now.to_string());
    let sent = courier.deliver(webhook.creation.url.as_str(), &subscription.secret, &message, now);
    Ok(TestReport {
        webhook_id: id.as_str().to_owned(),
        delivered: sent.is_ok(),
        status: sent.as_ref().ok().copied(),
        error: sent.err().map(|undelivered| undelivered.why),
    })
}

/// A webhook as the log has it.
struct FoundWebhook {
    creation: WebhookCreation,
    entry: StoredEntry,
    is_deleted: bool,
}

impl FoundWebhook {
    fn subscription<'s>(&self, all: &'s [Subscription]) -> Option<&'s Subscription> {
        all.iter().find(|one| one.id == self.creation.webhook_id && !self.is_deleted)
    }

    fn report(&self, tenant: &TenantId, subscriptions: &[Subscription]) -> WebhookReport {
        let WebhookCreation { webhook_id, url, events, robot_id, payloads, label } = &self.creation;
        let progress = self.subscription(subscriptions).map(Progress::read);
        let events =
            events.as_ref().map(|events| events.as_slice().iter().map(ToString::to_string).collect());
        WebhookReport {
            webhook_id: webhook_id.as_str().to_owned(),
            tenant_id: tenant.as_str().to_owned(),
            url: url.as_str().to_owned(),
            events,
            robot_id: robot_id.as_ref().map(ToString::to_string),
            payloads: payloads.unwrap_or(false),
            label: label.as_ref().map(|label| label.as_str().to_owned()),
            created_at: self.entry.created_at.to_string(),
            state: progress.as_ref().map_or("deleted", Progress::state).into(),
            reason: progress.and_then(|progress| progress.last_error),
            entry: self.entry.id.as_str().to_owned(),
        }
    }
}

fn find(ledger: &Ledger, tenant: &TenantId, id: &Name) -> Result<FoundWebhook, WebhookError> {
    let found = ledger.view(tenant, |view| find_in(view, id))?.flatten();
    found.ok_or_else(|| WebhookError::NoWebhook { id: id.clone(), tenant: tenant.clone() })
}

/// Looks a webhook up by its id. An id that cannot be one is no one's.
fn find_in(view: &mut LogView<'_>, id: &Name) -> Result<Option<FoundWebhook>, LedgerError> {
    let Some((WebhookEntry::Creation(creation), entry)) = find_own(view, &creation_key(id))? else {
        return Ok(None);
    };
    let is_deleted = find_own::<WebhookEntry>(view, &deletion_key(id))?.is_some();
    Ok(Some(FoundWebhook { creation, entry, is_deleted }))
}

/// What is recorded of a webhook, under the client key that exists once.
fn draft_of(entry: &WebhookEntry) -> Result<Draft, GrantEntryError> {
    let (kind, state, payload) = match entry {
        WebhookEntry::Creation(creation) => {
            (WEBHOOK_CREATION, Literal::new("created"), JsonObject::of("the webhook", creation)?)
        }
        WebhookEntry::Deletion(deletion) => {
            (WEBHOOK_DELETION, Literal::new("deleted"), JsonObject::of("the deletion", deletion)?)
        }
        WebhookEntry::Enablement(enablement) => {
            (WEBHOOK_ENABLEMENT, Literal::new("enabled"), JsonObject::of("the enablement", enablement)?)
        }
    };
    Ok(grant_draft(kind, state, payload, &entry.client_key())?)
}
