//! Which rule applies to a subject: the first that matches, else the built-in one.

use crealeph_contracts::approval::{ApprovalRule, SubjectKind};
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::scalar::Name;

/// The facts that rules distinguish subjects by.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectClass {
    /// Draft or change.
    pub kind: SubjectKind,
    /// The objective that a draft was made for.
    pub objective: Option<Name>,
    /// A change touches protected paths.
    pub is_protected: bool,
    /// A change touches tests.
    pub has_tests: bool,
    /// How many files a change touches.
    pub files: u64,
    /// The cost of its run, if it is known.
    pub cost_usd: Option<f64>,
}

impl SubjectClass {
    /// A draft, made for an objective if it is known.
    pub fn draft(objective: Option<Name>) -> Self {
        let kind = SubjectKind::Draft;
        SubjectClass { kind, objective, is_protected: false, has_tests: false, files: 0, cost_usd: None }
    }

    /// A held change.
    pub fn change(record: &HeldChangeRecord) -> Self {
        SubjectClass {
            kind: SubjectKind::Change,
            objective: None,
            is_protected: record.protected,
            has_tests: record.tests,
            files: record.files.get(),
            cost_usd: record.cost_usd.map(|cost| cost.get()),
        }
    }
}

/// The rule for a subject: the first that matches, else the built-in one.
pub fn rule_for(rules: &[ApprovalRule], class: &SubjectClass) -> ApprovalRule {
    let fitting = rules.iter().find(|rule| fits(rule, class)).cloned();
    fitting.unwrap_or_else(|| ApprovalRule::built_in(class.kind))
}

/// Whether a rule requires approval for a subject that no one held.
pub fn needs_approval(rules: &[ApprovalRule], class: &SubjectClass) -> bool {
    rules.iter().any(|rule| fits(rule, class))
}

/// A rule for changes that names conditions matches if one of them is met; without conditions it matches all.
fn fits(rule: &ApprovalRule, class: &SubjectClass) -> bool {
    if rule.subject != class.kind {
        return false;
    }
    if class.kind == SubjectKind::Draft {
        let objectives = rule.objectives.as_ref();
        return objectives
            .is_none_or(|wanted| class.objective.as_ref().is_some_and(|made_for| wanted.contains(made_for)));
    }
    let conditions = [
        rule.protected.map(|wanted| wanted && class.is_protected),
        rule.tests.map(|wanted| wanted && class.has_tests),
        rule.more_files_than.map(|limit| class.files > limit.get()),
        rule.cost_above_usd.map(|limit| class.cost_usd.is_none_or(|cost| cost > limit.get())),
    ];
    let mut named = conditions.into_iter().flatten().peekable();
    named.peek().is_none() || named.any(|is_met| is_met)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crealeph_contracts::scalar::{Amount, Count};

    #[test]
    fn the_first_matching_rule_applies_and_conditions_are_alternatives() {
        let base = ApprovalRule::built_in(SubjectKind::Change);
        let named = |name: &str, rule: &ApprovalRule| ApprovalRule {
            name: Name::parse(name).unwrap(),
            ..rule.clone()
        };
        let strict = ApprovalRule {
            tests: Some(true),
            more_files_than: Count::new(3),
            cost_above_usd: Amount::new(2.0),
            ..named("strict", &base)
        };
        let rules = [strict, named("rest", &base)];
        let change = SubjectClass {
            kind: SubjectKind::Change,
            objective: None,
            is_protected: true,
            has_tests: false,
            files: 3,
            cost_usd: Some(2.0),
        };
        let name = |class: &SubjectClass| rule_for(&rules, class).name.as_str().to_owned();
        assert_eq!(name(&change), "rest", "at every limit");
        assert_eq!(name(&SubjectClass { files: 4, ..change.clone() }), "strict");
        assert_eq!(name(&SubjectClass { cost_usd: Some(2.01), ..change.clone() }), "strict");
        assert_eq!(name(&SubjectClass { cost_usd: None, ..change.clone() }), "strict", "a cost nobody knows");
        assert_eq!(name(&SubjectClass { has_tests: true, ..change.clone() }), "strict");
        let draft = SubjectClass::draft(None);
        assert_eq!(name(&draft), "built-in");
        assert!(!needs_approval(&rules, &draft) && needs_approval(&rules, &change));
    }
}
