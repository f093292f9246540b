//! Parsing and validating a document from its text: ours, and serde_json with the `jsonschema` crate.

use crealeph_contracts::json::Limits;
use crealeph_contracts::{
    AgentInput, AgentOutput, Contract, ContractName, ExecutionEvent, PolicyOutput, Valid,
};
use jsonschema::Validator;
use serde_json::Value;

use crate::Outcome;

/// Ours: the strict parser and every rule of the contract, ending in a typed document.
pub struct Ours(fn(&[u8]) -> bool);

impl Ours {
    /// Our validator of a contract.
    pub fn new(contract: ContractName) -> Outcome<Self> {
        fn judge<T: Contract>(bytes: &[u8]) -> bool {
            Valid::<T>::parse(bytes, &Limits::default()).is_ok()
        }
        Ok(Ours(match contract {
            ContractName::AgentInput => judge::<AgentInput>,
            ContractName::AgentOutput => judge::<AgentOutput>,
            ContractName::ExecutionEvent => judge::<ExecutionEvent>,
            ContractName::PolicyOutput => judge::<PolicyOutput>,
            other => return Err(format!("{other} is not measured").into()),
        }))
    }

    /// Whether the text is valid.
    pub fn judge(&self, text: &str) -> bool {
        (self.0)(text.as_bytes())
    }
}

/// serde_json and the `jsonschema` crate, by its fastest way: a yes or no, with the schema compiled once.
pub struct JsonSchema(Validator);

impl JsonSchema {
    /// The validator of a contract's schema.
    pub fn new(contract: ContractName) -> Outcome<Self> {
        let schema: Value = serde_json::from_str(&contract.schema())?;
        Ok(JsonSchema(jsonschema::validator_for(&schema).map_err(|error| error.to_string())?))
    }

    /// Whether the text is valid.
    pub fn judge(&self, text: &str) -> bool {
        serde_json::from_slice::<Value>(text.as_bytes()).is_ok_and(|value| self.0.is_valid(&value))
    }
}

/// The document without its first key: what every contender must refuse.
pub fn without_first_key(text: &str) -> Outcome<String> {
    let mut value: Value = serde_json::from_str(text)?;
    let members = value.as_object_mut().ok_or("the document is not an object")?;
    let first = members.keys().next().cloned().ok_or("the document is empty")?;
    members.remove(&first);
    Ok(value.to_string())
}
