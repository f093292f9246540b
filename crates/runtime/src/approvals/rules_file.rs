//! Approval rules as people write them: TOML, one `[[rule]]` for each class of subjects, tried from the top.

use std::collections::BTreeSet;

use crealeph_contracts::agent_input::ObjectiveType;
use crealeph_contracts::approval::{ApprovalRule, ProofKind, SubjectKind};
use crealeph_contracts::scalar::{Amount, ApprovalCount, Count, Minutes, Name};
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
    #[error("it has {0} rules, and the limit is {MAX_RULES}")]
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
    protected: Option<bool>,
    tests: Option<bool>,
    more_files_than: Option<u64>,
    cost_above_usd: Option<f64>,
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
    proof: Option<Vec<String>>,
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
        let subject = self.checked_subject()?;
        let known = || ObjectiveType::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", ");
        let objective = |text: &String| match ObjectiveType::parse(text) {
            Some(_) => named(text),
            None => Err(format!("there is no objective `{text}`; known are {}", known())),
        };
        let objectives = match &self.objectives {
            None => None,
            Some(names) => {
                let names = names.iter().map(objective).collect::<Result<Vec<_>, _>>()?;
                Some(Set::new(names).ok_or("`objectives` is empty; remove it for all")?)
            }
        };
        let whole = |what: &str| format!("`{what}` must be at least 1 and below 2^53");
        let ttl_minutes = match self.ttl_minutes {
            None => None,
            Some(minutes) => Some(Minutes::new(minutes).ok_or_else(|| whole("ttl_minutes"))?),
        };
        let more_files_than = match self.more_files_than {
            None => None,
            Some(files) => Some(Count::new(files).ok_or("`more_files_than` must be below 2^53")?),
        };
        let cost_above_usd = match self.cost_above_usd {
            None => None,
            Some(cost) => Some(Amount::new(cost).ok_or("`cost_above_usd` must be a number, 0 or more")?),
        };
        let proofs = match &self.proof {
            None => Set::one(ProofKind::Ssh),
            Some(kinds) => {
                let kind = |text: &String| {
                    let known = ProofKind::parse(text);
                    known.ok_or_else(|| format!("there is no proof `{text}`; known are ssh, passkey"))
                };
                let kinds = kinds.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
                Set::new(kinds).ok_or("`proof` is empty; remove it for ssh only")?
            }
        };
        Ok(ApprovalRule {
            name: named(&self.name)?,
            subject,
            objectives,
            protected: self.protected,
            tests: self.tests,
            more_files_than,
            cost_above_usd,
            approvals: ApprovalCount::new(self.approvals).ok_or_else(|| whole("approvals"))?,
            group: self.group.as_deref().map(named).transpose()?,
            ttl_minutes,
            unattended: self.unattended,
            requester: self.requester,
            os_requester: self.os_requester,
            proofs,
        })
    }
}

impl RuleText {
    /// What the rule is for; a condition that this kind of subject does not have is refused.
    fn checked_subject(&self) -> Result<SubjectKind, String> {
        let subject = SubjectKind::parse(&self.subject)
            .ok_or_else(|| format!("`subject` is `{}`; it must be `draft` or `change`", self.subject))?;
        let of_changes = [
            ("protected", self.protected.is_some()),
            ("tests", self.tests.is_some()),
            ("more_files_than", self.more_files_than.is_some()),
            ("cost_above_usd", self.cost_above_usd.is_some()),
        ];
        let (kind, conditions): (_, &[(&str, bool)]) = match subject {
            SubjectKind::Draft => (SubjectKind::Change, &of_changes),
            SubjectKind::Change => (SubjectKind::Draft, &[("objectives", self.objectives.is_some())]),
        };
        if let Some((name, _)) = conditions.iter().find(|(_, is_given)| *is_given) {
            return Err(format!("`{name}` is for rules with `subject = \"{kind}\"`"));
        }
        for (name, value) in [("protected", self.protected), ("tests", self.tests)] {
            if value == Some(false) {
                return Err(format!("`{name} = false` matches nothing; remove it"));
            }
        }
        Ok(subject)
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
        assert_eq!(first.proofs.as_slice(), [ProofKind::Ssh]);
        let text = "[[rule]]\nname = \"a\"\nproof = [\"passkey\", \"ssh\"]\n";
        let both = read_rules(text).unwrap();
        assert_eq!(both.first().unwrap().proofs.as_slice(), [ProofKind::Ssh, ProofKind::Passkey]);
        let text = "[[rule]]\nname = \"large\"\nsubject = \"change\"\nmore_files_than = 3\ncost_above_usd = 0.5\n\
                    protected = true\ntests = true\nos_requester = true\n";
        let rules = read_rules(text).unwrap();
        let large = rules.first().unwrap();
        assert_eq!(
            (large.subject, large.protected, large.tests),
            (SubjectKind::Change, Some(true), Some(true))
        );
        assert_eq!(large.more_files_than.map(Count::get), Some(3));
        assert_eq!(large.cost_above_usd.map(Amount::get), Some(0.5));
        for (bad, said) in [
            ("[[rule]]\nname = \"a\"\n[[rule]]\nname = \"a\"\n", "another rule has this name"),
            ("[[rule]]\nname = \"\"\n", "empty"),
            ("[[rule]]\nname = \"a\"\napprovals = 0\n", "at least 1"),
            ("[[rule]]\nname = \"a\"\nttl_minutes = 0\n", "at least 1"),
            ("[[rule]]\nname = \"a\"\nobjectives = []\n", "empty"),
            ("[[rule]]\nname = \"a\"\nobjectives = [\"x\"]\n", "no objective `x`"),
            ("[[rule]]\nname = \"a\"\nproof = []\n", "`proof` is empty"),
            ("[[rule]]\nname = \"a\"\nproof = [\"fax\"]\n", "no proof `fax`"),
            ("[[rule]]\nname = \"a\"\napproval = 2\n", "approval"),
            ("[[rule]]\nname = \"a\"\nsubject = \"x\"\n", "`draft` or `change`"),
            ("[[rule]]\nname = \"a\"\ntests = true\n", "`tests` is for rules with `subject = \"change\"`"),
            (
                "[[rule]]\nname = \"a\"\nsubject = \"change\"\nobjectives = [\"campaign_plan\"]\n",
                "`objectives` is for rules with `subject = \"draft\"`",
            ),
            ("[[rule]]\nname = \"a\"\nsubject = \"change\"\nprotected = false\n", "remove it"),
            ("[[rule]]\nname = \"a\"\nsubject = \"change\"\ncost_above_usd = -1.0\n", "0 or more"),
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
