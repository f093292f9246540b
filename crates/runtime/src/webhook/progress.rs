//! The delivery progress of a webhook, stored in its subscription's notes.

use std::borrow::Cow;

use crealeph_ledger::{Millis, Seq, Subscription};
use serde::{Deserialize, Serialize};

/// The result of the last tries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Progress {
    /// When the webhook was requested.
    pub asked_at: i64,
    /// Failures since the last success.
    pub failures: u32,
    /// When they began, in milliseconds since 1970, as all times here.
    pub failing_since: Option<i64>,
    pub last_attempt_at: Option<i64>,
    pub last_delivery_at: Option<i64>,
    pub last_error: Option<String>,
    pub next_attempt_at: Option<i64>,
    pub disabled_at: Option<i64>,
}

/// How far a webhook was delivered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryReport {
    /// The webhook.
    pub webhook_id: String,
    /// `active`, `failing` or `disabled`.
    pub state: Cow<'static, str>,
    /// The last entry that was delivered, or that is not for it.
    pub position: u64,
    /// The newest entry of the log.
    pub last: u64,
    /// Failures since the last success.
    pub failures: u32,
    /// When something was last sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_at: Option<String>,
    /// When something was last taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delivery_at: Option<String>,
    /// Why the last try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// When it was disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<String>,
}

impl Progress {
    /// Of a subscription. Notes that cannot be read are those of a webhook that has not begun.
    pub(super) fn read(subscription: &Subscription) -> Progress {
        serde_json::from_str(&subscription.notes).unwrap_or_else(|error| {
            tracing::warn!(webhook = %subscription.id, "the notes of a webhook cannot be read: {error}");
            Progress::default()
        })
    }

    #[expect(clippy::expect_used, reason = "numbers and texts under names are always JSON")]
    pub(super) fn to_notes(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts")
    }

    /// The word for how it goes.
    pub(super) fn state(&self) -> &'static str {
        match (self.disabled_at, self.failures) {
            (Some(_), _) => "disabled",
            (None, 0) => "active",
            _ => "failing",
        }
    }

    /// Whether something may be sent at a time.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.disabled_at.is_none() && self.next_attempt_at.is_none_or(|at| at <= now.get())
    }

    /// After something was taken.
    pub(super) fn delivered(&mut self, at: Millis) {
        let (asked_at, at) = (self.asked_at, Some(at.get()));
        *self = Progress { asked_at, last_attempt_at: at, last_delivery_at: at, ..Progress::default() };
    }

    /// After something was not taken.
    pub(super) fn failed(&mut self, at: Millis, why: String, next_in_ms: i64) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(at.get());
        self.last_attempt_at = Some(at.get());
        self.last_error = Some(why);
        self.next_attempt_at = Some(at.get().saturating_add(next_in_ms));
    }

    /// Sends nothing more.
    pub(super) fn disable(&mut self, at: Millis) {
        self.disabled_at = Some(at.get());
        self.next_attempt_at = None;
    }

    /// Sends again from where it stopped, as if nothing had failed.
    pub(super) fn enable(self) -> Progress {
        let Progress { asked_at, last_attempt_at, last_delivery_at, .. } = self;
        Progress { asked_at, last_attempt_at, last_delivery_at, ..Progress::default() }
    }

    pub(super) fn report(self, subscription: &Subscription, last: Seq) -> DeliveryReport {
        let shown = |at: Option<i64>| at.map(|at| Millis::new(at).to_string());
        DeliveryReport {
            webhook_id: subscription.id.as_str().to_owned(),
            state: self.state().into(),
            position: subscription.position.get(),
            last: last.get(),
            failures: self.failures,
            last_attempt_at: shown(self.last_attempt_at),
            last_delivery_at: shown(self.last_delivery_at),
            last_error: self.last_error,
            next_attempt_at: shown(self.next_attempt_at),
            disabled_at: shown(self.disabled_at),
        }
    }
}
