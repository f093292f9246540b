//! Every clause that a validator can decide, as data: `clause_cases/cases.txt` edits a valid document and says every violation that
//! must be reported, no more and no fewer (R8).

#![cfg(test)]

mod clause_cases;

use std::collections::BTreeMap;

use clause_cases::{CASES, ClauseCase, check_all, stated};
use crealeph_contracts::agent_output::answers_input;
use crealeph_contracts::contract::{ContractName, read_node, read_text};
use crealeph_contracts::execution_event::{EntryRef, ExecutionEventParts, rests_on_ledger};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, Node, parse};
use crealeph_contracts::policy_output::answers_question;
use crealeph_contracts::scalar::{LedgerId, RobotId, TenantId};
use crealeph_contracts::{
    AgentInput, AgentOutput, Code, ExecutionEvent, PolicyInput, PolicyOutput, Report, Violation,
};

#[test]
// holds: invariant 5
fn every_clause_is_judged_as_the_cases_say() {
    let count = check_all(CASES, |case| stated(&violations(case), case.expected));
    assert!(count > 180, "the cases were read: {count}");
}

/// Before a log has its second rules, events pass everything except the gate.
#[test]
fn an_event_under_the_first_rules_is_judged_by_all_but_the_gate() {
    let events: Vec<&str> = CASES.lines().filter(|line| line.starts_with("execution-event")).collect();
    let limits = Limits::default();
    check_all(&events.join("\n"), |case| {
        let (context, _) = parse(case.context.as_bytes(), &limits);
        let context = context.unwrap();
        let rests =
            |event: &ExecutionEventParts, report: &mut Report| on_ledger(event, context.root(), report);
        let bytes = case.document.as_bytes();
        let read = ExecutionEvent::parse_under_first_rules(bytes, &limits, rests);
        if let Ok(event) = &read {
            let again = event.clone().check_under_first_rules(rests);
            assert_eq!(again.as_ref(), Ok(event), "{}", case.document);
            let alone =
                event.clone().check_under_first_rules(|_, report| report.add("", "", Code::Missing, "x"));
            assert!(alone.is_err(), "the context counts");
        }
        let gate = violations(case).into_iter().filter(|violation| violation.code == Code::GateRefused);
        let others = read.err().map(|violations| violations.as_slice().to_vec()).unwrap_or_default();
        stated(&gate.chain(others).collect::<Vec<_>>(), case.expected)
    });
}

/// What the contract's validator says of a document, alone and in its context.
fn violations(case: &ClauseCase<'_>) -> Vec<Violation> {
    let limits = Limits::default();
    let (context, _) = parse(case.context.as_bytes(), &limits);
    let context = context.unwrap();
    let context = context.root();
    let (bytes, mut report) = (case.document.as_bytes(), Report::default());
    match ContractName::parse(case.contract).expect("a contract's name") {
        ContractName::AgentOutput => {
            let output = read_text::<AgentOutput>(bytes, &limits, &mut report).unwrap();
            if let Some(input) = context.member("agentInput") {
                answers_input(&output, &read_node::<AgentInput>(input, &mut Report::default()), &mut report);
            }
        }
        ContractName::PolicyOutput => {
            let output = read_text::<PolicyOutput>(bytes, &limits, &mut report).unwrap();
            let required = context.member("requiredRecency");
            let required: Option<Vec<String>> =
                required.map(|names| names.elements().map(|name| name.text_value().into_owned()).collect());
            if let Some(input) = context.member("policyInput") {
                let input = read_node::<PolicyInput>(input, &mut Report::default());
                answers_question(&output, &input, required.as_deref(), &mut report);
            }
        }
        ContractName::ExecutionEvent => {
            let event = read_text::<ExecutionEvent>(bytes, &limits, &mut report).unwrap();
            on_ledger(&event, context, &mut report);
        }
        alone => return alone.validate(bytes, &limits),
    }
    report.into_violations()
}

/// Judges an event by the entries that the context has.
fn on_ledger(event: &ExecutionEventParts, context: Node<'_>, report: &mut Report) {
    let text = |node: Node<'_>, key: &str| node.member(key).unwrap().string().unwrap().into_owned();
    let entries: BTreeMap<(TenantId, LedgerId), EntryRef> = context
        .member("ledger")
        .unwrap()
        .elements()
        .map(|entry| {
            let tenant = TenantId::parse(&text(entry, "tenantId")).unwrap();
            let robot_id = RobotId::parse(&text(entry, "robotId")).ok();
            let created_at = Instant::parse(&text(entry, "createdAt")).unwrap();
            let id = LedgerId::parse(&text(entry, "id")).unwrap();
            ((tenant, id), EntryRef { robot_id, created_at })
        })
        .collect();
    let lookup = |tenant: &TenantId, id: &LedgerId| entries.get(&(tenant.clone(), id.clone())).cloned();
    rests_on_ledger(event, lookup, report);
}
