//! What only CreAleph itself writes. Its records, verdicts and receipts are found again by key and type, and what
//! they say is believed; so a batch from outside that carries such a key or type is refused before it is looked at.
//! The events of an execution are not among them: producers may write those, judged by their contract (R19).

use crealeph_contracts::entry::Draft;

/// The types of the entries that only CreAleph writes.
pub const RESERVED_TYPES: &[&str] = &["execution_record", "review", "run_receipt", "run_verdict"];

/// How the keys begin that only CreAleph gives; `crealeph:` is kept for what is to come.
pub const RESERVED_KEYS: &[&str] =
    &["approved:", "crealeph:", "execution_record:", "review:", "run_receipt:", "run_verdict:"];

/// What a draft has that only CreAleph may give: the member, and what it holds.
pub(crate) fn reserved_in(draft: &Draft) -> Option<(&'static str, String)> {
    let (kind, key) = (draft.kind.as_str(), draft.key.as_ref().map(|key| key.as_str()));
    if RESERVED_TYPES.contains(&kind) {
        return Some(("type", kind.to_owned()));
    }
    let key = key.filter(|key| RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix)))?;
    Some(("key", key.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crealeph_contracts::scalar::LedgerId;
    use crealeph_decision::builder::EXECUTION_RECORD;
    use crealeph_decision::builder::lookup::record_key;
    use crealeph_decision::builder::review::{REVIEW, approved_key, review_key};

    #[test]
    fn what_the_builder_and_reviews_write_is_reserved() {
        for kind in [EXECUTION_RECORD, REVIEW] {
            assert!(RESERVED_TYPES.contains(&kind.as_str()), "{}", kind.as_str());
        }
        let draft = LedgerId::parse("x").unwrap();
        for key in [record_key("r", "e", 1), review_key(&draft), approved_key(&draft)] {
            let key = key.unwrap();
            assert!(RESERVED_KEYS.iter().any(|prefix| key.as_str().starts_with(prefix)), "{key}");
        }
    }
}
