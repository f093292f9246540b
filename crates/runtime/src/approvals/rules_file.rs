//! Approval rules as people write them: TOML, one `[[rule]]` for each class of subjects, tried from the top.

use std::collections::BTreeSet;

use crealeph_contracts::agent_input::ObjectiveType;
use crealeph_contracts::approval::{ApprovalRule, ProofKind, SubjectKind};
use crealeph_contracts::scalar::{ApprovalCount, Minutes, Name};
use crealeph_contracts::shape::Set;

use crate::configuration::toml_fault;

/// The most rules of a tenant.
pub const MAX_RULES: usize = 256;

/// Why a text is not a list of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesTextError {
    /// Not TOML, or not the keys of a rule.
    #[error("{0}")]
    Form(String),
    /// Too many.
    #[error("it has {0} rules, and {MAX_RULES} are the most")]
    TooMany(usize),
    /// A rule that means nothing.
    #[error("rule `{rule}`: {why}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        why: String,
    },
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesText {
    #[serde(default)]
    rule: Vec<RuleText>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: String,
    #[serde(default = "draft")]
    subject: String,
    objectives: Option<Vec<String>>,
    #[serde(default = "one")]
    approvals: u64,
    group: Option<String>,
    ttl_minutes: Option<u64>,
    #[serde(default)]
    unattended: bool,
    #[serde(default)]
    requester: bool,
    #[serde(default)]
    os_requester: bool,
}

fn draft() -> String {
    SubjectKind::Draft.as_str().to_owned()
}

fn one() -> u64 {
    1
}

/// Reads rules from a text.
///
/// # Errors
/// With what is wrong first.
pub fn read_rules(text: &str) -> Result<Vec<ApprovalRule>, RulesTextError> {
    let read: RulesText =
        toml::from_str(text).map_err(|error| RulesTextError::Form(toml_fault(text, &error)))?;
    if read.rule.len() > MAX_RULES {
        return Err(RulesTextError::TooMany(read.rule.len()));
    }
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for rule in read.rule {
        let name = rule.name.clone();
        let wrong = |why: &str| RulesTextError::Rule { rule: name.clone(), why: why.to_owned() };
        if !names.insert(name.clone()) {
            return Err(wrong("another rule has this name; rename one"));
        }
        rules.push(rule.into_rule().map_err(|why| wrong(&why))?);
    }
    Ok(rules)
}

impl RuleText {
    fn into_rule(self) -> Result<ApprovalRule, String> {
        let named = |text: &str| Name::parse(text).map_err(|error| format!("`{text}`: {error}"));
        if self.subject != SubjectKind::Draft.as_str() {
            return Err(format!("`subject` is `{}`; rules are for `draft`", self.subject));
        }
        let known = || ObjectiveType::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", ");
        let objective = |text: &String| match ObjectiveType::parse(text) {
            Some(_) => named(text),
            None => Err(format!("there is no objective `{text}`; known are {}", known())),
        };
        let objectives = match &self.objectives {
            None => None,
            Some(names) => {
                let names = names.iter().map(objective).collect::<Result<Vec<_>, _>>()?;
                Some(Set::new(names).ok_or("`objectives` is empty; leave it out for all")?)
            }
        };
        let whole = |what: &str| format!("`{what}` must be at least 1 and below 2^53");
        let ttl_minutes = match self.ttl_minutes {
            None => None,
            Some(minutes) => Some(Minutes::new(minutes).ok_or_else(|| whole("ttl_minutes"))?),
        };
        Ok(ApprovalRule {
            name: named(&self.name)?,
            subject: SubjectKind::Draft,
            objectives,
            protected: None,
            tests: None,
            more_files_than: None,
            cost_above_usd: None,
            approvals: ApprovalCount::new(self.approvals).ok_or_else(|| whole("approvals"))?,
            group: self.group.as_deref().map(named).transpose()?,
            ttl_minutes,
            unattended: self.unattended,
            requester: self.requester,
            os_requester: self.os_requester,
            proofs: Set::one(ProofKind::Ssh),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_rule_says_what_it_wants_and_nonsense_is_named() {
        let text = "[[rule]]\nname = \"campaigns\"\nobjectives = [\"campaign_plan\"]\napprovals = 2\n\
                    group = \"maintainers\"\nttl_minutes = 60\n\n[[rule]]\nname = \"rest\"\n";
        let rules = read_rules(text).unwrap();
        let (first, second) = (rules.first().unwrap(), rules.last().unwrap());
        assert_eq!((first.approvals.get(), second.approvals.get()), (2, 1));
        assert!(second.objectives.is_none() && second.ttl_minutes.is_none() && !second.unattended);
        for (bad, said) in [
            ("[[rule]]\nname = \"a\"\n[[rule]]\nname = \"a\"\n", "another rule has this name"),
            ("[[rule]]\nname = \"\"\n", "empty"),
            ("[[rule]]\nname = \"a\"\napprovals = 0\n", "at least 1"),
            ("[[rule]]\nname = \"a\"\nttl_minutes = 0\n", "at least 1"),
            ("[[rule]]\nname = \"a\"\nobjectives = []\n", "empty"),
            ("[[rule]]\nname = \"a\"\nobjectives = [\"x\"]\n", "no objective `x`"),
            ("[[rule]]\nname = \"a\"\napproval = 2\n", "approval"),
            ("[[rule]]\nname = \"a\"\nsubject = \"change\"\n", "for `draft`"),
            ("rule = 1\n", "line 1, column 8"),
        ] {
            let error = read_rules(bad).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let many =
            |count: usize| (0..count).map(|at| format!("[[rule]]\nname = \"r{at}\"\n")).collect::<String>();
        assert_eq!(read_rules(&many(MAX_RULES)).unwrap().len(), MAX_RULES);
        assert_eq!(read_rules(&many(MAX_RULES + 1)), Err(RulesTextError::TooMany(MAX_RULES + 1)));
    }
}
