//! Every clause of the contracts as data: the cases that a validator decides, and in `clauses/cases.txt` those that need a decision.
//! Each edits a valid document and says every violation that must be reported, no more and no fewer (R8).

#![cfg(test)]

#[path = "../../contracts/tests/clause_cases/mod.rs"]
mod clause_cases;

use clause_cases::{CASES, ClauseCase, check_all, stated};
use crealeph_contracts::contract::ContractName;
use crealeph_contracts::json::{Limits, parse};
use crealeph_decision::judge::{ContextError, Judgement, judge};
use serde_json::json;

#[test]
// holds: invariant 5
fn every_clause_is_judged_as_the_cases_say() {
    let of_validators = check_all(CASES, |case| match judged(case) {
        Ok(judgement) => stated(&judgement.violations, case.expected),
        Err(error) => format!("not judged: {error}"),
    });
    let of_decisions = check_all(include_str!("clauses/cases.txt"), |case| match judged(case) {
        Ok(judgement) => concluded(&judgement, case.expected),
        Err(error) => format!("not judged: {error}"),
    });
    assert!(
        of_validators > 180 && of_decisions > 80,
        "the cases were read: {of_validators} and {of_decisions}"
    );
}

fn judged(case: &ClauseCase<'_>) -> Result<Judgement, ContextError> {
    let (context, _) = parse(case.context.as_bytes(), &Limits::default());
    let root = context.as_ref().map(|document| document.root());
    let contract = ContractName::parse(case.contract).expect("a contract's name");
    judge(contract, case.document.as_bytes(), root, &Limits::default())
}

/// A judgement as a case states it: the violations, or the result for a valid document.
fn concluded(judgement: &Judgement, expected: &str) -> String {
    let levels = judgement.plan.as_ref().map(|plan| {
        let levels: Vec<Vec<&str>> =
            plan.levels.iter().map(|level| level.iter().map(|id| id.as_str()).collect()).collect();
        format!("levels {}", json!(levels))
    });
    match (judgement.violations.is_empty(), judgement.is_repeat) {
        (false, _) => stated(&judgement.violations, expected),
        (true, true) => "idempotent".to_owned(),
        (true, false) => levels.unwrap_or_else(|| "valid".to_owned()),
    }
}
