//! Grants and revocations of API keys, as an outsider judges them: readable, under the client key of the API key that they
//! name, and a revocation only for an earlier grant. That none appears twice is a rule of every client key.

use std::collections::BTreeSet;

use crealeph_contracts::Entry;
use crealeph_contracts::api_key::{ACCESS, AccessEntry, is_access_key};
use crealeph_contracts::scalar::KeyId;

use crate::finding::{Finding, FindingKind};

/// The API keys that a log has granted so far.
#[derive(Clone, Debug, Default)]
pub struct AccessLog {
    granted: BTreeSet<KeyId>,
}

impl AccessLog {
    /// Judges the next entry of the log; `None` if it is not about API keys.
    ///
    /// # Errors
    /// If an honest ledger would not have accepted it.
    pub fn add(&mut self, entry: &Entry) -> Result<Option<AccessEntry>, Finding> {
        let invalid = |what: String| Finding::new(FindingKind::Invalid, what);
        let Some(key) = entry.key.as_ref().filter(|key| is_access_key(key.as_str())) else { return Ok(None) };
        if entry.module.as_ref().is_none_or(|module| module.as_str() != ACCESS.as_str()) {
            return Err(invalid("has the key of an API key's grant under another module".to_owned()));
        }
        let payload = entry.payload.as_ref().ok_or_else(|| invalid("has no payload".to_owned()))?;
        let read = AccessEntry::read(entry.kind.as_str(), payload).map_err(invalid)?;
        if read.client_key() != key.as_str() {
            return Err(invalid(format!(
                "is about the API key `{}` under the key of another",
                read.key_id()
            )));
        }
        match &read {
            AccessEntry::Grant(grant) => {
                self.granted.insert(grant.key_id.clone());
            }
            AccessEntry::Revocation(revocation) if !self.granted.contains(&revocation.key_id) => {
                let what =
                    format!("revokes the API key `{}`, which was not granted before", revocation.key_id);
                return Err(invalid(what));
            }
            AccessEntry::Revocation(_) => {}
        }
        Ok(Some(read))
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
    fn a_key_is_granted_before_it_is_revoked_and_under_its_own_name() {
        let grant = format!(r#"{{"keyId":"a","role":"reader","tokenDigest":"{}"}}"#, "0".repeat(64));
        let granted = entry("key_grant", "crealeph-access", "crealeph:api-key:a", &grant);
        let revoked =
            entry("key_revocation", "crealeph-access", "crealeph:api-key-revoked:a", r#"{"keyId":"a"}"#);
        let mut log = AccessLog::default();
        let early = log.add(&revoked).unwrap_err();
        assert_eq!(early.what, "revokes the API key `a`, which was not granted before");
        assert!(log.add(&granted).unwrap().is_some());
        assert!(log.add(&revoked).unwrap().is_some());
        let others = [
            entry("key_grant", "crealeph-access", "crealeph:api-key:b", &grant),
            entry("key_grant", "m", "crealeph:api-key:a", &grant),
            entry("signal", "crealeph-access", "crealeph:api-key:a", &grant),
            entry("key_grant", "crealeph-access", "crealeph:api-key:a", "{}"),
        ];
        assert!(others.iter().all(|entry| log.add(entry).is_err()));
        assert!(log.add(&entry("key_grant", "m", "mine", "{}")).unwrap().is_none());
    }
}
