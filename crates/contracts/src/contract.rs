//! What makes a document of a contract: its name, its shape and the rules across its fields; and the one way
//! from bytes to a value that is known to be valid.

use std::ops::Deref;

use serde_json::Value;

use crate::json::{Limits, Node, parse};
use crate::schema;
use crate::shape::{Shape, words};
use crate::violation::{Code, Report, Violation, Violations};
use crate::{
    AgentInput, AgentOutput, BuilderRequest, BuilderResponse, ExecutionEvent, PolicyInput, PolicyOutput,
    Receipt, RunResult, WorkItem,
};

/// A document that crosses a boundary under a contract.
pub trait Contract: Shape {
    /// Which one.
    const NAME: ContractName;

    /// The contract's own error code for every violation, if it has one.
    const REFUSAL: Option<Code> = None;

    /// The rules across fields of one document, judged on whatever could be read.
    fn rules(parts: &Self::Parts, report: &mut Report);

    /// Those of the rules that a JSON Schema can say, as its `allOf`.
    fn schema_rules() -> Vec<Value> {
        Vec::new()
    }
}

words! {
    /// The documents that the contracts fix.
    ContractName {
        /// What CreAleph gives an agent (agent-boundary-v1).
        AgentInput = "agent-input",
        /// What an agent gives back (agent-boundary-v1).
        AgentOutput = "agent-output",
        /// A step of an execution in the ledger (builder-execution-v1).
        ExecutionEvent = "execution-event",
        /// What the policy engine is asked (policy-engine-v1).
        PolicyInput = "policy-input",
        /// What the policy engine answers (policy-engine-v1).
        PolicyOutput = "policy-output",
        /// What a client asks of the Builder (builder-v1).
        BuilderRequest = "builder-request",
        /// What the Builder answers (builder-v1).
        BuilderResponse = "builder-response",
        /// What an agent is to do in a workspace (agent-run).
        WorkItem = "work-item",
        /// How that ended (agent-run).
        RunResult = "run-result",
        /// The proof of how that ended (agent-run).
        Receipt = "receipt",
    }
}

impl ContractName {
    /// Judges a text as a document of this contract, alone.
    pub fn validate(self, bytes: &[u8], limits: &Limits) -> Vec<Violation> {
        fn all<T: Contract>(bytes: &[u8], limits: &Limits) -> Vec<Violation> {
            let mut report = Report::new(T::REFUSAL);
            read_text::<T>(bytes, limits, &mut report);
            report.into_violations()
        }
        match self {
            ContractName::AgentInput => all::<AgentInput>(bytes, limits),
            ContractName::AgentOutput => all::<AgentOutput>(bytes, limits),
            ContractName::ExecutionEvent => all::<ExecutionEvent>(bytes, limits),
            ContractName::PolicyInput => all::<PolicyInput>(bytes, limits),
            ContractName::PolicyOutput => all::<PolicyOutput>(bytes, limits),
            ContractName::BuilderRequest => all::<BuilderRequest>(bytes, limits),
            ContractName::BuilderResponse => all::<BuilderResponse>(bytes, limits),
            ContractName::WorkItem => all::<WorkItem>(bytes, limits),
            ContractName::RunResult => all::<RunResult>(bytes, limits),
            ContractName::Receipt => all::<Receipt>(bytes, limits),
        }
    }

    /// The contract's JSON Schema 2020-12, indented, as it is committed under `schemas/`.
    pub fn schema(self) -> String {
        fn of<T: Contract>() -> Value {
            schema::document(T::NAME.as_str(), T::schema(), T::schema_rules())
        }
        let schema = match self {
            ContractName::AgentInput => of::<AgentInput>(),
            ContractName::AgentOutput => of::<AgentOutput>(),
            ContractName::ExecutionEvent => of::<ExecutionEvent>(),
            ContractName::PolicyInput => of::<PolicyInput>(),
            ContractName::PolicyOutput => of::<PolicyOutput>(),
            ContractName::BuilderRequest => of::<BuilderRequest>(),
            ContractName::BuilderResponse => of::<BuilderResponse>(),
            ContractName::WorkItem => of::<WorkItem>(),
            ContractName::RunResult => of::<RunResult>(),
            ContractName::Receipt => of::<Receipt>(),
        };
        format!("{schema:#}\n")
    }
}

/// A document that passed its contract's validator; nothing else can be one.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid<T>(T);

impl<T: Contract> Valid<T> {
    /// Parses and judges a text, alone.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, Violations> {
        Self::parse_in(bytes, limits, |_, _| ())
    }

    /// Parses and judges a text, also against its context.
    pub fn parse_in(
        bytes: &[u8],
        limits: &Limits,
        context: impl FnOnce(&T::Parts, &mut Report),
    ) -> Result<Self, Violations> {
        let mut report = Report::new(T::REFUSAL);
        let parts = read_text::<T>(bytes, limits, &mut report);
        if let Some(parts) = &parts {
            context(parts, &mut report);
        }
        finish(parts, report)
    }

    /// Judges a document that was composed here.
    pub fn check(document: T) -> Result<Self, Violations> {
        let mut report = Report::new(T::REFUSAL);
        let parts = document.into_parts();
        T::rules(&parts, &mut report);
        finish(Some(parts), report)
    }

    /// The document, no longer known to be valid once it is changed.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// The document as JSON text, fields in the contract's order.
    pub fn to_json(&self) -> String {
        to_json(&self.0)
    }
}

impl<T> Deref for Valid<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value as JSON text.
pub fn to_json<T: Shape>(value: &T) -> String {
    let mut out = String::with_capacity(512);
    value.write(&mut out);
    out
}

/// Reads a document of CreAleph's own that is not part of a contract, or reports everything that is wrong with it.
///
/// # Errors
/// With every violation.
pub(crate) fn read_own<T: Shape>(
    bytes: &[u8],
    max_bytes: usize,
    clause: &'static str,
) -> Result<T, Vec<Violation>> {
    let (document, faults) = parse(bytes, &Limits::own(max_bytes));
    let mut report = Report::default();
    faults.into_iter().for_each(|fault| report.add_fault(fault));
    let parts = document.map(|document| T::read(document.root(), clause, &mut report));
    match parts.and_then(T::finish) {
        Some(whole) if report.is_clean() => Ok(whole),
        _ => Err(report.into_violations()),
    }
}

/// Reads a text into parts and reports everything wrong with it alone; `None` if it cannot be read at all.
pub fn read_text<T: Contract>(bytes: &[u8], limits: &Limits, report: &mut Report) -> Option<T::Parts> {
    let (document, faults) = parse(bytes, limits);
    for fault in faults {
        report.add_fault(fault);
    }
    document.map(|document| read_node::<T>(document.root(), report))
}

/// Reads a value of a document that is parsed already, and reports everything wrong with it alone.
pub fn read_node<T: Contract>(node: Node<'_>, report: &mut Report) -> T::Parts {
    report.start_document();
    let parts = T::read(node, "", report);
    T::rules(&parts, report);
    parts
}

fn finish<T: Contract>(parts: Option<T::Parts>, report: Report) -> Result<Valid<T>, Violations> {
    let mut report = report;
    let value = if report.is_clean() { parts.and_then(T::finish) } else { None };
    match value {
        Some(value) => Ok(Valid(value)),
        None => {
            if report.is_clean() {
                report.add("", "R8", Code::Missing, "the document is not complete");
            }
            Err(report.into_violations_error())
        }
    }
}
