//! Valid documents of every contract, and how the tests judge and change them.
#![allow(dead_code, reason = "each test file uses what it needs")]

pub(crate) mod mutation;

use crealeph_contracts::contract::read_text;
use crealeph_contracts::json::Limits;
use crealeph_contracts::{
    AgentInput, AgentOutput, BuilderRequest, BuilderResponse, Code, Contract, ContractName, ExecutionEvent,
    PolicyInput, PolicyOutput, Receipt, Report, RunResult, Valid, Violation, WorkItem,
};

macro_rules! documents {
    ($( $contract:ident $file:literal, )*) => {
        &[$( (ContractName::$contract, include_str!(concat!($file, ".json"))), )*]
    };
}

/// At least one valid document of each contract; more where its rules have branches.
pub(crate) const VALID: &[(ContractName, &str)] = documents! {
    AgentInput "agent-input",
    AgentInput "agent-input-stale",
    AgentOutput "agent-output",
    AgentOutput "agent-output-failed",
    ExecutionEvent "execution-event",
    ExecutionEvent "execution-event-blocked",
    ExecutionEvent "execution-event-cancelled",
    PolicyInput "policy-input",
    PolicyOutput "policy-output",
    PolicyOutput "policy-output-block",
    BuilderRequest "builder-request",
    BuilderResponse "builder-response",
    BuilderResponse "builder-response-blocked",
    BuilderResponse "builder-response-invalid",
    WorkItem "work-item",
    RunResult "run-result",
    RunResult "run-result-denied",
    RunResult "run-result-timeout",
    Receipt "receipt",
    Receipt "receipt-failed",
};

/// Calls a generic function for the contract of a name.
macro_rules! for_contract {
    ($name:expr, $function:ident($($argument:expr),*)) => {
        match $name {
            ContractName::AgentInput => $function::<AgentInput>($($argument),*),
            ContractName::AgentOutput => $function::<AgentOutput>($($argument),*),
            ContractName::ExecutionEvent => $function::<ExecutionEvent>($($argument),*),
            ContractName::PolicyInput => $function::<PolicyInput>($($argument),*),
            ContractName::PolicyOutput => $function::<PolicyOutput>($($argument),*),
            ContractName::BuilderRequest => $function::<BuilderRequest>($($argument),*),
            ContractName::BuilderResponse => $function::<BuilderResponse>($($argument),*),
            ContractName::WorkItem => $function::<WorkItem>($($argument),*),
            ContractName::RunResult => $function::<RunResult>($($argument),*),
            ContractName::Receipt => $function::<Receipt>($($argument),*),
        }
    };
}

/// Every violation under its own code, even if the contract answers with one refusal for all of them.
pub(crate) fn violations(contract: ContractName, bytes: &[u8]) -> Vec<Violation> {
    fn judge<T: Contract>(bytes: &[u8]) -> Vec<Violation> {
        let mut report = Report::new(None);
        read_text::<T>(bytes, &Limits::default(), &mut report);
        report.into_violations()
    }
    for_contract!(contract, judge(bytes))
}

/// The codes of every violation, as [`violations`] has them.
pub(crate) fn codes(contract: ContractName, bytes: &[u8]) -> Vec<Code> {
    violations(contract, bytes).into_iter().map(|violation| violation.code).collect()
}

/// Whether a text is a valid document; one that is must be written as a text that reads back equal.
pub(crate) fn is_valid_and_reads_back(contract: ContractName, bytes: &[u8]) -> Result<bool, String> {
    fn check<T: Contract + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Result<bool, String> {
        let Ok(document) = Valid::<T>::parse(bytes, &Limits::default()) else { return Ok(false) };
        let written = document.to_json();
        match Valid::<T>::parse(written.as_bytes(), &Limits::default()) {
            Ok(again) if again == document && again.to_json() == written => Ok(true),
            other => Err(format!("{document:?} was written as {written} and read back as {other:?}")),
        }
    }
    for_contract!(contract, check(bytes))
}
