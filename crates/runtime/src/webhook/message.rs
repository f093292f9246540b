//! The message to a receiver: a CloudEvent 1.0 about an entry, with only ids or with the whole entry, signed according to Standard
//! Webhooks. The id of a message is the entry's, so it is the same at every attempt.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::json::ObjectWriter;
use crealeph_ledger::StoredEntry;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::entries::{cloud_event, entry_head_json, entry_json};

/// What a secret begins with.
pub(super) const SECRET_PREFIX: &str = "whsec_";
/// The type of the event that a test sends.
pub(super) const TEST_TYPE: &str = "crealeph.webhook.test";

/// A message before it is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub id: String,
    pub body: String,
}

impl Message {
    /// About an entry; with its payload if requested and small enough.
    pub(super) fn of_entry(entry: &StoredEntry, has_payload: bool, max_bytes: usize) -> Message {
        let whole = has_payload.then(|| cloud_event(entry, &entry_json(entry)));
        let body = whole.filter(|body| body.len() <= max_bytes);
        Message {
            id: entry.id.as_str().to_owned(),
            body: body.unwrap_or_else(|| cloud_event(entry, &entry_head_json(entry))),
        }
    }

    /// For a try that is about no entry.
    pub(super) fn test(webhook_id: &str, id: &str, time: &str) -> Message {
        let mut body = String::new();
        let mut event = ObjectWriter::new(&mut body);
        event
            .text("specversion", "1.0")
            .text("id", id)
            .text("source", &format!("urn:crealeph:webhook:{webhook_id}"));
        event.text("type", TEST_TYPE).text("time", time);
        event.end();
        Message { id: id.to_owned(), body }
    }

    /// The value of `webhook-signature` at a time; `None` if the secret is not one.
    pub(super) fn signature(&self, secret: &str, timestamp: i64) -> Option<String> {
        let key = STANDARD.decode(secret.strip_prefix(SECRET_PREFIX)?).ok()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
        mac.update(format!("{}.{timestamp}.{}", self.id, self.body).as_bytes());
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn a_signature_is_the_one_of_the_specification() {
        let message = Message {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
            body: r#"{"test": 2432232314}"#.to_owned(),
        };
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signature = message.signature(secret, 1_614_265_330).unwrap();
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(message.signature("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1), None);
    }
}
