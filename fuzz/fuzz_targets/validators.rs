//! The first byte picks a contract, the rest is the document. For any document, the validator answers, with existing places and
//! advice; a valid one is written as a text that reads back equal.
#![no_main]

use crealeph_contracts::json::Limits;
use crealeph_contracts::violation::MAX_VIOLATIONS;
use crealeph_contracts::{
    AgentInput, AgentOutput, BuilderRequest, BuilderResponse, Contract, ContractName, ExecutionEvent,
    PolicyInput, PolicyOutput, Receipt, RunResult, Valid, WorkItem,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, document)) = bytes.split_first() else { return };
    let contracts = ContractName::ALL;
    let Some(contract) = contracts.get(usize::from(*first) % contracts.len()) else { return };
    match contract {
        ContractName::AgentInput => judge::<AgentInput>(document),
        ContractName::AgentOutput => judge::<AgentOutput>(document),
        ContractName::ExecutionEvent => judge::<ExecutionEvent>(document),
        ContractName::PolicyInput => judge::<PolicyInput>(document),
        ContractName::PolicyOutput => judge::<PolicyOutput>(document),
        ContractName::BuilderRequest => judge::<BuilderRequest>(document),
        ContractName::BuilderResponse => judge::<BuilderResponse>(document),
        ContractName::WorkItem => judge::<WorkItem>(document),
        ContractName::RunResult => judge::<RunResult>(document),
        ContractName::Receipt => judge::<Receipt>(document),
    }
});

fn judge<T: Contract + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let limits = Limits::default();
    match Valid::<T>::parse(bytes, &limits) {
        Ok(document) => {
            let written = document.to_json();
            assert_eq!(Valid::<T>::parse(written.as_bytes(), &limits).as_ref(), Ok(&document), "{written}");
        }
        Err(violations) => {
            let violations = violations.as_slice();
            assert!(!violations.is_empty() && violations.len() <= MAX_VIOLATIONS + 3);
            for violation in violations {
                assert!(violation.pointer.is_empty() || violation.pointer.starts_with('/'), "{violation:?}");
                assert!(!violation.clause.is_empty() && !violation.message.is_empty(), "{violation:?}");
            }
        }
    }
}
