//! What only CreAleph itself writes. It finds its artifacts, records, verdicts and receipts by module, key and
//! type, and trusts them; so a batch from outside with such a module, key or type is refused
//! before anything else is checked. Producers may write the events of an execution (module `agent-builder`), which
//! are judged by their contract (R19).

use crealeph_contracts::entry::Draft;

/// The types of the entries that only CreAleph writes.
pub const RESERVED_TYPES: &[&str] = &[
    "approval_rule",
    "execution_record",
    "held_change",
    "key_grant",
    "key_revocation",
    "landing",
    "landing_outcome",
    "log_rules",
    "passkey_enrolment",
    "person_enrolment",
    "person_invitation",
    "person_revocation",
    "reported_receipt",
    "review",
    "run_receipt",
    "run_verdict",
    "session_end",
    "session_grant",
    "sign_in_link",
    "signer_enrolment",
    "signer_revocation",
    "verdict",
    "webhook_creation",
    "webhook_deletion",
    "webhook_enablement",
];

/// The modules under which only CreAleph writes: its Builder's artifacts and records (R14), API keys, sessions and webhooks, and approvals (R33).
pub const RESERVED_MODULES: &[&str] = &["builder", "crealeph-access", "crealeph-approvals"];

/// The prefixes of keys that only CreAleph assigns; `crealeph:` is reserved for future keys.
pub const RESERVED_KEYS: &[&str] = &[
    "approved:",
    "crealeph:",
    "execution_record:",
    "held_change:",
    "landing:",
    "landing_outcome:",
    "review:",
    "run_receipt:",
    "run_verdict:",
];

/// The member that only CreAleph may give a draft, and its value.
pub(crate) fn reserved_in(draft: &Draft) -> Option<(&'static str, String)> {
    let (kind, key) = (draft.kind.as_str(), draft.key.as_ref().map(|key| key.as_str()));
    if RESERVED_TYPES.contains(&kind) {
        return Some(("type", kind.to_owned()));
    }
    if RESERVED_MODULES.contains(&draft.module.as_str()) {
        return Some(("module", draft.module.as_str().to_owned()));
    }
    let key = key.filter(|key| RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix)))?;
    Some(("key", key.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crealeph_contracts::api_key::{ACCESS, KEY_GRANT, KEY_REVOCATION, grant_key, revocation_key};
    use crealeph_contracts::approval::{
        APPROVALS, FIRST_ADMIN_KEY, LANDING, LANDING_OUTCOME, SignedKind, landing_key, landing_outcome_key,
        nonce_key,
    };
    use crealeph_contracts::held_change::{HELD_CHANGE, HELD_CHANGE_KEY};
    use crealeph_contracts::log_rules::{LOG_RULES, LOG_RULES_KEY};
    use crealeph_contracts::passkey::{PASSKEY_ENROLMENT, invitation_key};
    use crealeph_contracts::reported::{
        REPORTED_KEY, REPORTED_RECEIPT, REVOKED_SIGNER_KEY, SIGNER_ENROLMENT, SIGNER_KEY, SIGNER_REVOCATION,
    };
    use crealeph_contracts::scalar::{ClientKey, KeyId, LedgerId, Name};
    use crealeph_contracts::session::{
        SESSION_END, SESSION_GRANT, SIGN_IN_LINK, link_key, session_end_key, session_key,
    };
    use crealeph_contracts::webhook::{
        WEBHOOK_CREATION, WEBHOOK_DELETION, WEBHOOK_ENABLEMENT, creation_key, deletion_key,
    };
    use crealeph_decision::builder::EXECUTION_RECORD;
    use crealeph_decision::builder::lookup::record_key;
    use crealeph_decision::builder::review::{REVIEW, approved_key, review_key};

    #[test]
    fn entries_that_people_sign_are_reserved() {
        let kinds = SignedKind::ALL.iter().map(|kind| kind.as_str()).chain([
            LANDING.as_str(),
            LANDING_OUTCOME.as_str(),
            PASSKEY_ENROLMENT.as_str(),
            HELD_CHANGE.as_str(),
        ]);
        assert!(kinds.into_iter().all(|kind| RESERVED_TYPES.contains(&kind)));
        assert!(RESERVED_MODULES.contains(&APPROVALS.as_str()));
        let subject = LedgerId::parse("x").unwrap();
        let (landing, outcome) = (landing_key(&subject, 1), landing_outcome_key(&subject, 1));
        let random = crealeph_contracts::uuid::Uuid::from_bytes([0; 16]);
        let (nonce, invitation) = (nonce_key(&random), invitation_key(&random));
        for key in [FIRST_ADMIN_KEY, HELD_CHANGE_KEY, &landing, &outcome, &nonce, &invitation] {
            assert!(RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix)), "{key}");
        }
    }

    #[test]
    fn entries_about_access_are_reserved() {
        let sessions = [SIGN_IN_LINK, SESSION_GRANT, SESSION_END];
        let webhooks = [WEBHOOK_CREATION, WEBHOOK_DELETION, WEBHOOK_ENABLEMENT];
        for kind in sessions.into_iter().chain([KEY_GRANT, KEY_REVOCATION]).chain(webhooks) {
            assert!(RESERVED_TYPES.contains(&kind.as_str()), "{}", kind.as_str());
        }
        assert!(RESERVED_MODULES.contains(&ACCESS.as_str()));
        let id = KeyId::parse("k").unwrap();
        let webhook = Name::parse("w").unwrap();
        let sessions = [link_key(&id), session_key(&id), session_end_key(&id)];
        let others = [grant_key(&id), revocation_key(&id), creation_key(&webhook), deletion_key(&webhook)];
        for key in sessions.into_iter().chain(others) {
            assert!(RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix)), "{key}");
        }
    }

    #[test]
    fn entries_about_signers_and_from_them_are_reserved() {
        for kind in [REPORTED_RECEIPT, SIGNER_ENROLMENT, SIGNER_REVOCATION] {
            assert!(RESERVED_TYPES.contains(&kind.as_str()), "{}", kind.as_str());
        }
        for key in [REPORTED_KEY, SIGNER_KEY, REVOKED_SIGNER_KEY] {
            assert!(RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix)), "{key}");
        }
    }

    #[test]
    fn entries_of_the_builder_and_of_reviews_are_reserved() {
        for kind in [EXECUTION_RECORD, LOG_RULES, REVIEW] {
            assert!(RESERVED_TYPES.contains(&kind.as_str()), "{}", kind.as_str());
        }
        let draft = LedgerId::parse("x").unwrap();
        let marker = ClientKey::parse(LOG_RULES_KEY);
        for key in [record_key("r", "e", 1), review_key(&draft), approved_key(&draft), marker] {
            let key = key.unwrap();
            assert!(RESERVED_KEYS.iter().any(|prefix| key.as_str().starts_with(prefix)), "{key}");
        }
    }
}
