//! Under which rules an entry of a log is judged. A log cannot be repaired, so a new rule begins at a place in it: entries
//! before that place are judged by the rules of their time, and reported as legacy instead of wrong.
//!
//! A log that was started under the second rules says so in its name, which every checkpoint signs. An older log
//! gets one entry of the reserved type `log_rules`, whose key only CreAleph could ever write.

use crate::scalar::Literal;

/// The type of the entry that marks where the second rules begin.
pub const LOG_RULES: Literal = Literal::new("log_rules");
/// Its key. Keys that start with `crealeph:` were already reserved under the first rules.
pub const LOG_RULES_KEY: &str = "crealeph:log_rules:2";
/// What the name of a log starts with; the rest is random, so that it says nothing about the tenant.
const ORIGIN_PREFIX: &str = "crealeph-log/";
/// What precedes the random part in the name of a log that was started under the second rules.
const SECOND_MARK: &str = "2-";

/// The rules of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RulesVersion {
    /// Events are judged by their schema and §7 alone; anyone may write the module `builder`.
    First,
    /// Events pass the gating matrix too (builder-execution-v1 §5), and the module `builder` is reserved.
    Second,
}

/// The name of a new log, from its random part.
pub fn new_origin(random: &str) -> String {
    format!("{ORIGIN_PREFIX}{SECOND_MARK}{random}")
}

/// Which rules apply from which place of a log, as far as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RulesInForce {
    /// The place of the entry from which the second rules apply; 0 if they apply from the start.
    second_from: Option<u64>,
}

impl RulesInForce {
    /// The rules of a log of which only the name is known.
    pub fn of_origin(origin: &str) -> RulesInForce {
        let is_second = origin.strip_prefix(ORIGIN_PREFIX).is_some_and(|rest| rest.starts_with(SECOND_MARK));
        RulesInForce { second_from: is_second.then_some(0) }
    }

    /// Whether a place is known from which the second rules apply.
    pub fn has_second(&self) -> bool {
        self.second_from.is_some()
    }

    /// The place of the entry from which the second rules apply; 0 if they apply from the start.
    pub fn second_from(&self) -> Option<u64> {
        self.second_from
    }

    /// Takes notice of an entry: its place, type and key.
    pub fn see(&mut self, seq: u64, kind: &str, key: Option<&str>) {
        if self.second_from.is_none() && kind == LOG_RULES.as_str() && key == Some(LOG_RULES_KEY) {
            self.second_from = Some(seq);
        }
    }

    /// The rules that apply to the entry at a place.
    pub fn at(&self, seq: u64) -> RulesVersion {
        match self.second_from {
            Some(from) if seq >= from => RulesVersion::Second,
            _ => RulesVersion::First,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_log_is_under_the_second_rules_from_its_start() {
        let rules = RulesInForce::of_origin(&new_origin("00112233"));
        assert_eq!((rules.at(1), rules.has_second()), (RulesVersion::Second, true));
        for older in ["crealeph-log/00112233", "another-log/2-00", "2-00", ""] {
            assert_eq!(RulesInForce::of_origin(older).at(u64::MAX), RulesVersion::First, "{older}");
        }
    }

    #[test]
    fn an_older_log_follows_the_second_rules_from_its_marker() {
        let mut rules = RulesInForce::of_origin("crealeph-log/00112233");
        rules.see(3, "log_rules", None);
        rules.see(4, "note", Some(LOG_RULES_KEY));
        assert!(!rules.has_second(), "neither type nor key alone is the marker");
        rules.see(5, "log_rules", Some(LOG_RULES_KEY));
        rules.see(9, "log_rules", Some(LOG_RULES_KEY));
        let at = [4, 5, 6].map(|seq| rules.at(seq));
        assert_eq!(at, [RulesVersion::First, RulesVersion::Second, RulesVersion::Second]);
    }

    #[test]
    fn the_place_is_the_first_marker_or_the_start() {
        assert_eq!(RulesInForce::of_origin(&new_origin("00112233")).second_from(), Some(0));
        let mut rules = RulesInForce::of_origin("crealeph-log/00112233");
        assert_eq!(rules.second_from(), None);
        for seq in [5, 9] {
            rules.see(seq, "log_rules", Some(LOG_RULES_KEY));
        }
        assert_eq!(rules.second_from(), Some(5));
    }
}
