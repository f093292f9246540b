//! Which subjects are similar, so that a person can decide about several at once: of one class, under one rule.

use crealeph_contracts::approval::SubjectKind;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::Name;
use crealeph_decision::approval::{ApprovalSubject, SubjectState};

/// What subjects have in common that are alike. How many files a change touches and what it cost may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectLikeness {
    kind: SubjectKind,
    objective: Option<Name>,
    is_protected: bool,
    has_tests: bool,
    rule: Name,
    rule_digest: Blake3,
}

impl SubjectLikeness {
    /// Of a subject, as it is.
    pub fn of(subject: &ApprovalSubject, state: &SubjectState) -> Self {
        let class = &subject.class;
        SubjectLikeness {
            kind: class.kind,
            objective: class.objective.clone(),
            is_protected: class.is_protected,
            has_tests: class.has_tests,
            rule: state.rule.name.clone(),
            rule_digest: state.rule_digest,
        }
    }

    /// A text that subjects have in common if they are alike, and no others.
    pub fn key(&self) -> String {
        format!("{self}, {}", self.rule_digest)
    }
}

impl std::fmt::Display for SubjectLikeness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}s", self.kind.as_str())?;
        if let Some(objective) = &self.objective {
            write!(f, " for `{objective}`")?;
        }
        match (self.is_protected, self.has_tests) {
            (true, true) => f.write_str(" of protected paths and tests")?,
            (true, false) => f.write_str(" of protected paths")?,
            (false, true) => f.write_str(" of tests")?,
            (false, false) => {}
        }
        write!(f, " under the rule `{}`", self.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_that_a_rule_distinguishes_are_not_alike() {
        let usual = SubjectLikeness {
            kind: SubjectKind::Change,
            objective: None,
            is_protected: false,
            has_tests: false,
            rule: Name::from(crealeph_contracts::scalar::Literal::new("web")),
            rule_digest: Blake3::of(b"1"),
        };
        assert_eq!(usual.to_string(), "changes under the rule `web`");
        for other in [
            SubjectLikeness { kind: SubjectKind::Draft, ..usual.clone() },
            SubjectLikeness { is_protected: true, ..usual.clone() },
            SubjectLikeness { has_tests: true, ..usual.clone() },
            SubjectLikeness { rule_digest: Blake3::of(b"2"), ..usual.clone() },
        ] {
            assert!(other != usual && other.key() != usual.key(), "{other}");
        }
    }
}
