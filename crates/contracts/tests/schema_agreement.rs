//! Schema and validator agree if a schema can express the rule: the validator refuses what the schema
//! refuses, and the schema refuses what the validator refuses by such a rule.
#![cfg(test)]

mod documents;

use boon::{Compiler, SchemaIndex, Schemas};
use crealeph_contracts::ContractName;
use crealeph_contracts::violation::Violation;
use documents::mutation::{mutated, mutations};
use documents::{VALID, violations};
use proptest::prelude::*;
use serde_json::{Value, json};

struct CompiledSchemas {
    schemas: Schemas,
    by_contract: Vec<(ContractName, SchemaIndex)>,
}

impl CompiledSchemas {
    fn new() -> Self {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        let mut by_contract = Vec::new();
        for &contract in ContractName::ALL {
            let schema: Value = serde_json::from_str(&contract.schema()).unwrap();
            let id = schema["$id"].as_str().unwrap().to_owned();
            compiler.add_resource(&id, schema).unwrap();
            by_contract.push((contract, compiler.compile(&id, &mut schemas).unwrap()));
        }
        CompiledSchemas { schemas, by_contract }
    }

    fn refusal(&self, contract: ContractName, document: &Value) -> Option<String> {
        let (_, index) = self.by_contract.iter().find(|(name, _)| *name == contract).unwrap();
        self.schemas.validate(document, *index).err().map(|error| format!("{error:#}"))
    }
}

thread_local! {
    static COMPILED: CompiledSchemas = CompiledSchemas::new();
}

/// What the contract's schema finds wrong with a document, if anything.
fn schema_refusal(contract: ContractName, document: &Value) -> Option<String> {
    COMPILED.with(|compiled| compiled.refusal(contract, document))
}

/// Says how schema and validator differ about a document, if they do.
fn disagreement(contract: ContractName, document: &Value) -> Option<String> {
    let text = document.to_string();
    let violations = violations(contract, text.as_bytes());
    // No schema can say that two lists have no element in common.
    let is_schema_rule =
        |violation: &&Violation| violation.code.is_schema_rule() && violation.clause != "R22";
    let by_rule: Vec<_> = violations.iter().filter(is_schema_rule).collect();
    match schema_refusal(contract, document) {
        Some(refusal) if violations.is_empty() => {
            Some(format!("{contract}: only the schema refuses {text}\n{refusal}"))
        }
        None if !by_rule.is_empty() => {
            Some(format!("{contract}: only the validator refuses {text}\n{by_rule:#?}"))
        }
        _ => None,
    }
}

#[test]
// holds: invariant 6
fn every_valid_document_passes_both() {
    for (contract, text) in VALID {
        let document: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema_refusal(*contract, &document), None, "{contract}: {text}");
        assert_eq!(violations(*contract, text.as_bytes()), [], "{contract}: {text}");
    }
    for contract in ContractName::ALL {
        assert!(VALID.iter().any(|(name, _)| name == contract), "no document of {contract}");
    }
}

/// The committed schemas are what these types give, descriptions included; `cargo xtask generate` writes them.
#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    for contract in ContractName::ALL {
        let committed = std::fs::read_to_string(folder.join(format!("{contract}.schema.json"))).unwrap();
        assert_eq!(contract.schema(), committed, "{contract}");
    }
}

/// Every value of every document replaced by one of each kind, removed, and joined by an unknown key: the changes
/// that must be tried at every single place, not only at random ones.
#[test]
// holds: invariant 6
fn one_change_at_every_place() {
    let replacements = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0.5),
        json!(9007199254740992u64),
        json!(""),
        json!("\u{85}\u{a0}\u{3000}"),
        json!("a\u{0}"),
        json!("no such word"),
        json!([]),
        json!({}),
    ];
    for (contract, text) in VALID {
        let document: Value = serde_json::from_str(text).unwrap();
        for changed in one_change_each(&document, &replacements) {
            assert_eq!(disagreement(*contract, &changed), None);
        }
    }
}

/// Every document that differs from this one by a single change.
fn one_change_each(document: &Value, replacements: &[Value]) -> Vec<Value> {
    let mut changed = replacements.to_vec();
    match document {
        Value::Object(members) => {
            for (key, inner) in members {
                let with = |value: Option<Value>| {
                    let mut members = members.clone();
                    match value {
                        Some(value) => members.insert(key.clone(), value),
                        None => members.remove(key),
                    };
                    Value::Object(members)
                };
                changed.push(with(None));
                changed
                    .extend(one_change_each(inner, replacements).into_iter().map(|value| with(Some(value))));
            }
            let mut more = members.clone();
            more.insert("unknownKey".to_owned(), json!(1));
            changed.push(Value::Object(more));
        }
        Value::Array(elements) => {
            for (at, inner) in elements.iter().enumerate() {
                let mut fewer = elements.clone();
                fewer.remove(at);
                changed.push(Value::Array(fewer));
                changed.extend(one_change_each(inner, replacements).into_iter().map(|value| {
                    let mut elements = elements.clone();
                    elements[at] = value;
                    Value::Array(elements)
                }));
            }
        }
        _ => {}
    }
    changed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16 * ProptestConfig::default().cases, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    // holds: invariant 6
    fn several_changes_anywhere((contract, text) in proptest::sample::select(VALID), changes in mutations()) {
        let document = mutated(serde_json::from_str(text).unwrap(), &changes);
        prop_assert_eq!(disagreement(contract, &document), None);
    }
}
