//! Webhooks as the ledger records them, so that it can be proved which entries went where, and at whose request. The secret that
//! signs deliveries is in no entry. Entries count by their client key: keys that start with `crealeph:` were always reserved.
//! They are recorded under the module of API keys ([`crate::api_key::ACCESS`]): a URL may contain what not every reader should see.

use crate::contract::read_own;
use crate::instant::Timestamp;
use crate::json::JsonObject;
use crate::scalar::{ClientKey, Literal, Name, RobotId, Text};
use crate::shape::{Set, object};
use crate::violation::Violation;

/// The type of the entry that creates a webhook.
pub const WEBHOOK_CREATION: Literal = Literal::new("webhook_creation");
/// The type of the entry that deletes one.
pub const WEBHOOK_DELETION: Literal = Literal::new("webhook_deletion");
/// The type of the entry that enables one again.
pub const WEBHOOK_ENABLEMENT: Literal = Literal::new("webhook_enablement");
/// How the client key of a creation begins; the id of the webhook follows.
const CREATION_PREFIX: &str = "crealeph:webhook:";
/// The same of a deletion.
const DELETION_PREFIX: &str = "crealeph:webhook-deleted:";
/// The same of an enablement; the id follows, `:`, and when it had been disabled.
const ENABLEMENT_PREFIX: &str = "crealeph:webhook-enabled:";
/// The largest payload that is read.
const MAX_BYTES: usize = 64 << 10;

object! {
    /// What a new webhook is for, as a client of the server asks for it.
    WebhookRequest / WebhookRequestParts ["webhook_request", "R4"] {
        /// Where it is delivered to.
        url: Text = "url",
        /// The types of entries that are sent; all but those about access if absent.
        events: Option<Set<Name>> = "events",
        /// The robot that it is restricted to.
        robot_id: Option<RobotId> = "robotId",
        /// Whether payloads are sent along.
        payloads: Option<bool> = "payloads",
        /// What it is for.
        label: Option<Text> = "label",
        /// The client's own name for this request: sent again, it makes no second webhook.
        client_key: Option<ClientKey> = "clientKey",
    }
}

impl WebhookRequest {
    /// Reads a request strictly, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_BYTES, "R4")
    }
}

object! {
    /// A webhook was created: the payload of the entry.
    WebhookCreation / WebhookCreationParts ["webhook_creation", "R4"] {
        /// Its id, which is no secret.
        webhook_id: Name = "webhookId",
        /// Where it is delivered to.
        url: Text = "url",
        /// The types of entries that are sent; all but those about access if absent.
        events: Option<Set<Name>> = "events",
        /// The robot that it is restricted to.
        robot_id: Option<RobotId> = "robotId",
        /// Whether payloads are sent along.
        payloads: Option<bool> = "payloads",
        /// What it is for.
        label: Option<Text> = "label",
    }
}

object! {
    /// A webhook was deleted: the payload of the entry.
    WebhookDeletion / WebhookDeletionParts ["webhook_deletion", "R4"] {
        /// Which.
        webhook_id: Name = "webhookId",
        /// Why.
        reason: Option<Text> = "reason",
    }
}

object! {
    /// A webhook that had been disabled was enabled again: the payload of the entry.
    WebhookEnablement / WebhookEnablementParts ["webhook_enablement", "R4"] {
        /// Which.
        webhook_id: Name = "webhookId",
        /// When it had been disabled.
        disabled_at: Timestamp = "disabledAt",
        /// Why.
        reason: Option<Text> = "reason",
    }
}

/// What an entry about webhooks says.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookEntry {
    /// One was created.
    Creation(WebhookCreation),
    /// One was deleted.
    Deletion(WebhookDeletion),
    /// One was enabled again.
    Enablement(WebhookEnablement),
}

impl WebhookEntry {
    /// Reads the payload of an entry of this type.
    ///
    /// # Errors
    /// The first problem.
    pub fn read(kind: &str, payload: &JsonObject) -> Result<Self, String> {
        let bytes = payload.as_str().as_bytes();
        let read = if kind == WEBHOOK_CREATION.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(WebhookEntry::Creation)
        } else if kind == WEBHOOK_DELETION.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(WebhookEntry::Deletion)
        } else if kind == WEBHOOK_ENABLEMENT.as_str() {
            read_own(bytes, MAX_BYTES, "R4").map(WebhookEntry::Enablement)
        } else {
            return Err("is of a type that webhooks do not have".to_owned());
        };
        read.map_err(|violations| {
            let first = violations.first().map_or_else(String::new, ToString::to_string);
            format!("is about a webhook and cannot be read: {first}")
        })
    }

    /// The webhook that it is about.
    pub fn webhook_id(&self) -> &Name {
        match self {
            WebhookEntry::Creation(creation) => &creation.webhook_id,
            WebhookEntry::Deletion(deletion) => &deletion.webhook_id,
            WebhookEntry::Enablement(enablement) => &enablement.webhook_id,
        }
    }

    /// The client key of its entry, by which it is found; only one entry has it.
    pub fn client_key(&self) -> String {
        match self {
            WebhookEntry::Creation(creation) => creation_key(&creation.webhook_id),
            WebhookEntry::Deletion(deletion) => deletion_key(&deletion.webhook_id),
            WebhookEntry::Enablement(WebhookEnablement { webhook_id, disabled_at, .. }) => {
                format!("{ENABLEMENT_PREFIX}{webhook_id}:{}", disabled_at.as_str())
            }
        }
    }
}

/// The client key of the entry that creates a webhook.
pub fn creation_key(id: &Name) -> String {
    format!("{CREATION_PREFIX}{id}")
}

/// The client key of the entry that deletes a webhook.
pub fn deletion_key(id: &Name) -> String {
    format!("{DELETION_PREFIX}{id}")
}

/// Whether a client key is one of an entry about webhooks.
pub fn is_webhook_key(key: &str) -> bool {
    [CREATION_PREFIX, DELETION_PREFIX, ENABLEMENT_PREFIX].iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_entry_about_a_webhook_has_exactly_its_fields() {
        let text = r#"{"webhookId":"a1","url":"https://example.com/","events":["signal"],"payloads":true}"#;
        let read = |text: &str| WebhookEntry::read("webhook_creation", &JsonObject::parse(text).unwrap());
        let entry = read(text).unwrap();
        assert_eq!(entry.client_key(), "crealeph:webhook:a1");
        assert!(is_webhook_key(&entry.client_key()));
        for (from, to) in [
            (r#""webhookId":"a1","#, ""),
            (r#""payloads":true"#, r#""payloads":1"#),
            (r#""url""#, r#""secret":"whsec_x","url""#),
        ] {
            assert!(read(&text.replace(from, to)).is_err(), "{from}");
        }
        assert!(WebhookEntry::read("signal", &JsonObject::empty()).is_err());
        let text = r#"{"webhookId":"a1","disabledAt":"2026-01-02T03:04:05.000Z"}"#;
        let entry = WebhookEntry::read("webhook_enablement", &JsonObject::parse(text).unwrap()).unwrap();
        assert_eq!(entry.client_key(), "crealeph:webhook-enabled:a1:2026-01-02T03:04:05.000Z");
        assert!(is_webhook_key(&entry.client_key()));
    }
}
