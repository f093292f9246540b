//! Every clause of the contracts as data: `clauses/cases.txt` edits a valid document and says every violation that must
//! be reported, no more and no fewer (R8).

#![cfg(test)]

use crealeph_contracts::contract::ContractName;
use crealeph_contracts::json::{Limits, parse};
use crealeph_decision::judge::judge;
use serde_json::{Value, json};

#[test]
// holds: invariant 5
fn every_clause_is_judged_as_the_cases_say() {
    let bases: Value = serde_json::from_str(include_str!("clauses/bases.json")).unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for (position, line) in include_str!("clauses/cases.txt").lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let found = check(line, &bases);
        if let Err(found) = found {
            failures.push(format!("cases.txt:{}: {line}\n    found: {found}", position + 1));
        }
    }
    assert!(count > 180, "the cases were read: {count}");
    assert!(failures.is_empty(), "{} of {count} cases:\n{}", failures.len(), failures.join("\n"));
}

/// Judges one case; the error is what was found instead.
fn check(line: &str, bases: &Value) -> Result<(), String> {
    let [contract, edits, expected] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
        return Err("three columns are wanted".to_owned());
    };
    let mut document = bases[contract].clone();
    let mut context = base_context(contract, bases);
    for edit in edits.split(" & ").map(str::trim).filter(|edit| !edit.is_empty()) {
        if let Some(history) = edit.strip_prefix("history") {
            context["history"] = history.split_whitespace().map(|step| recorded(step, bases)).collect();
        } else if let Some(edit) = edit.strip_prefix("ctx ") {
            apply(&mut context, edit);
        } else {
            apply(&mut document, edit);
        }
    }
    let (document, context) = (document.to_string(), context.to_string());
    let (context_document, _) = parse(context.as_bytes(), &Limits::default());
    let context_root = context_document.as_ref().map(|document| document.root());
    let contract = ContractName::parse(contract).expect("a contract's name");
    let judgement = match judge(contract, document.as_bytes(), context_root, &Limits::default()) {
        Ok(judgement) => judgement,
        Err(error) => {
            let found = format!("not judged: {error}");
            return if found == expected { Ok(()) } else { Err(found) };
        }
    };
    let violations: Vec<String> = judgement
        .violations
        .iter()
        .map(|violation| {
            assert!(!violation.message.is_empty());
            let code = violation.code.as_str();
            let code = if code.contains(' ') { format!("{code:?}") } else { code.to_owned() };
            let place = format!("{code} {} {}", violation.pointer, violation.clause);
            if expected.contains(" says ") { format!("{place} says {}", violation.message) } else { place }
        })
        .collect();
    let levels = judgement.plan.map(|plan| {
        let levels: Vec<Vec<&str>> =
            plan.levels.iter().map(|level| level.iter().map(|id| id.as_str()).collect()).collect();
        format!("levels {}", json!(levels))
    });
    let found = match (violations.is_empty(), judgement.is_repeat) {
        (false, _) => violations.join("; "),
        (true, true) => "idempotent".to_owned(),
        (true, false) => levels.unwrap_or_else(|| "valid".to_owned()),
    };
    let sorted = |list: &str| {
        let mut parts: Vec<String> = list.split("; ").map(|part| part.replace("], [", "],[")).collect();
        parts.sort();
        parts
    };
    if sorted(&found) == sorted(expected) { Ok(()) } else { Err(found) }
}

/// What the base document of a contract is judged against.
fn base_context(contract: &str, bases: &Value) -> Value {
    let entry = |id: &str, tenant: &str, robot: &str, at: &str| json!({ "id": id, "tenantId": tenant, "robotId": robot, "createdAt": at });
    match contract {
        "agent-output" => json!({ "agentInput": bases["agent-input"] }),
        "policy-output" => {
            json!({ "policyInput": bases["policy-input"], "requiredRecency": ["signalsAt", "fusionAt"] })
        }
        "execution-event" => json!({ "ledger": [
            entry("L1", "t-1", "r-1", "2026-03-04T05:00:00Z"),
            entry("L2", "t-1", "r-1", "2026-03-04T05:30:00.000Z"),
            entry("L3", "t-1", "r-1", "2026-03-04T05:30:00.000000001Z"),
            entry("L4", "t-2", "r-1", "2026-03-04T05:00:00Z"),
            entry("L5", "t-1", "r-2", "2026-03-04T05:00:00Z"),
        ] }),
        _ => json!({}),
    }
}

/// A recorded event, `state:attempt`, made from the base event.
fn recorded(step: &str, bases: &Value) -> Value {
    let (state, attempt) = step.split_once(':').expect("state:attempt");
    let mut event = bases["execution-event"].clone();
    event["state"] = json!(state);
    event["payload"]["attempt"] = json!(attempt.parse::<u64>().unwrap());
    if state == "failed" {
        event["payload"]["error"] =
            json!({ "code": "MODEL_OUTPUT_INVALID", "message": "m", "retryable": true });
    }
    if state == "cancelled" {
        event["payload"]["cancelReason"] = json!("POLICY_DEFERRED");
    }
    event
}

/// Sets or removes what a pointer names.
fn apply(document: &mut Value, edit: &str) {
    let (pointer, value) = match edit.strip_prefix("remove ") {
        Some(pointer) => (pointer, None),
        None => {
            let (pointer, value) = edit.split_once(" = ").unwrap_or_else(|| panic!("not an edit: {edit}"));
            let value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{edit}: {error}"));
            (pointer, Some(value))
        }
    };
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match (document.pointer_mut(parent), value) {
        (Some(Value::Object(members)), Some(value)) => {
            members.insert(key.to_owned(), value);
        }
        (Some(Value::Object(members)), None) => {
            members.remove(key).unwrap_or_else(|| panic!("nothing to remove: {edit}"));
        }
        (Some(Value::Array(elements)), Some(value)) => elements[key.parse::<usize>().unwrap()] = value,
        _ => panic!("no such place: {edit}"),
    }
}
