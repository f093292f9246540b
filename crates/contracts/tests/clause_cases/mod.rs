//! The clauses of the contracts as cases: how a line of `cases.txt` edits a document of `bases.json` and its context, and how the
//! violations are compared. The judge is the caller's.

use serde_json::{Value, json};

/// The cases that a validator decides.
pub(crate) const CASES: &str = include_str!("cases.txt");

/// One line: the name of its contract, the document and its context as JSON text, and what is expected.
pub(crate) struct ClauseCase<'c> {
    pub(crate) contract: &'c str,
    pub(crate) document: String,
    pub(crate) context: String,
    pub(crate) expected: &'c str,
}

/// Judges every case with `judge`, and fails with all that differ. Returns how many there are.
pub(crate) fn check_all(cases: &str, judge: impl Fn(&ClauseCase<'_>) -> String) -> usize {
    let bases: Value = serde_json::from_str(include_str!("bases.json")).unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for (position, line) in cases.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let case = read(line, &bases);
        let found = judge(&case);
        if sorted(&found) != sorted(case.expected) {
            failures.push(format!("line {}: {line}\n    found: {found}", position + 1));
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases:\n{}", failures.len(), failures.join("\n"));
    count
}

fn read<'c>(line: &'c str, bases: &Value) -> ClauseCase<'c> {
    let [contract, edits, expected] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
        panic!("three columns are wanted: {line}");
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
    ClauseCase { contract, document: document.to_string(), context: context.to_string(), expected }
}

fn sorted(list: &str) -> Vec<String> {
    let mut parts: Vec<String> = list.split("; ").map(|part| part.replace("], [", "],[")).collect();
    parts.sort();
    parts
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

/// Violations as a case states them; with their messages if it states those.
pub(crate) fn stated<'v>(
    violations: impl IntoIterator<Item = &'v crealeph_contracts::Violation>,
    expected: &str,
) -> String {
    let stated = violations.into_iter().map(|violation| {
        assert!(!violation.message.is_empty());
        let code = violation.code.as_str();
        let code = if code.contains(' ') { format!("{code:?}") } else { code.to_owned() };
        let place = format!("{code} {} {}", violation.pointer, violation.clause);
        if expected.contains(" says ") { format!("{place} says {}", violation.message) } else { place }
    });
    let stated: Vec<String> = stated.collect();
    if stated.is_empty() { "valid".to_owned() } else { stated.join("; ") }
}
