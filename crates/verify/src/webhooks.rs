//! Creations, enablements and deletions of webhooks, as an outsider judges them: readable, under the client key of the webhook that
//! they name, and enablements and deletions only of an earlier creation.

use std::collections::BTreeSet;

use crealeph_contracts::Entry;
use crealeph_contracts::api_key::ACCESS;
use crealeph_contracts::scalar::Name;
use crealeph_contracts::webhook::{WebhookEntry, is_webhook_key};

use crate::finding::{Finding, FindingKind};

/// The webhooks that a log has created so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebhookLog {
    created: BTreeSet<Name>,
}

impl WebhookLog {
    /// Judges the next entry of the log, if it is about webhooks.
    pub(crate) fn add(&mut self, entry: &Entry) -> Result<(), Finding> {
        let invalid = |what: String| Finding::new(FindingKind::Invalid, what);
        let Some(key) = entry.key.as_ref().filter(|key| is_webhook_key(key.as_str())) else { return Ok(()) };
        if entry.module.as_ref().is_none_or(|module| module.as_str() != ACCESS.as_str()) {
            return Err(invalid("has the key of a webhook under another module".to_owned()));
        }
        let payload = entry.payload.as_ref().ok_or_else(|| invalid("has no payload".to_owned()))?;
        let read = WebhookEntry::read(entry.kind.as_str(), payload).map_err(invalid)?;
        let id = read.webhook_id();
        if read.client_key() != key.as_str() {
            return Err(invalid(format!("is about the webhook `{id}` under the key of another")));
        }
        match &read {
            WebhookEntry::Creation(_) => _ = self.created.insert(id.clone()),
            _ if self.created.contains(id) => {}
            WebhookEntry::Deletion(_) => {
                return Err(invalid(format!("deletes the webhook `{id}`, which was not created before")));
            }
            WebhookEntry::Enablement(_) => {
                return Err(invalid(format!("enables the webhook `{id}`, which was not created before")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crealeph_contracts::json::{Limits, parse};

    use super::*;

    fn entry(kind: &str, module: &str, key: &str, payload: &str) -> Entry {
        let text = format!(
            r#"{{"id":"i","robotId":"r","module":"{module}","type":"{kind}","createdAt":"2026-01-02T00:00:00.000Z","payload":{payload},"key":"{key}"}}"#
        );
        Entry::read_from(parse(text.as_bytes(), &Limits::default()).0.unwrap().root()).unwrap()
    }

    #[test]
    fn a_webhook_is_created_before_it_is_deleted_and_under_its_own_name() {
        let payload = r#"{"webhookId":"a","url":"https://example.com/"}"#;
        let (own, key) = ("crealeph-access", "crealeph:webhook:a");
        let deleted = entry("webhook_deletion", own, "crealeph:webhook-deleted:a", r#"{"webhookId":"a"}"#);
        let enabled = |key: &str| {
            let payload = r#"{"webhookId":"a","disabledAt":"2026-01-02T00:00:00.000Z"}"#;
            entry("webhook_enablement", own, &format!("crealeph:webhook-enabled:{key}"), payload)
        };
        let mut log = WebhookLog::default();
        assert!(log.add(&enabled("a:2026-01-02T00:00:00.000Z")).is_err());
        let early = log.add(&deleted).unwrap_err();
        assert_eq!(early.what, "deletes the webhook `a`, which was not created before");
        log.add(&entry("webhook_creation", own, key, payload)).unwrap();
        log.add(&enabled("a:2026-01-02T00:00:00.000Z")).unwrap();
        log.add(&deleted).unwrap();
        for other in [
            enabled("a"),
            enabled("b:2026-01-02T00:00:00.000Z"),
            enabled("a:2026-01-03T00:00:00.000Z"),
            entry("webhook_creation", own, "crealeph:webhook:b", payload),
            entry("webhook_creation", "m", key, payload),
            entry("signal", own, key, payload),
            entry("webhook_creation", own, key, "{}"),
        ] {
            assert!(log.add(&other).is_err());
        }
        log.add(&entry("webhook_creation", "m", "mine", "{}")).unwrap();
    }
}
