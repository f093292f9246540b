//! The documents for every contender: committed in a readable form, measured in their transport form, without the spaces.

use std::fs;

use crealeph_contracts::ContractName;
use serde_json::{Value, json};

use crate::{FOLDER, Outcome};

/// How many entries the large snapshot holds, for a document of about 100 KB.
const LARGE_SNAPSHOT_ENTRIES: usize = 270;

/// A document of a contract.
pub struct Document {
    /// Its name in the table.
    pub name: String,
    /// Its contract.
    pub contract: ContractName,
    /// Its text.
    pub text: String,
}

/// The documents of the validation benchmark.
pub fn documents() -> Outcome<Vec<Document>> {
    let mut documents = Vec::new();
    for contract in [
        ContractName::AgentInput,
        ContractName::AgentOutput,
        ContractName::ExecutionEvent,
        ContractName::PolicyOutput,
    ] {
        let value = read(contract.as_str())?;
        documents.push(Document { name: contract.to_string(), contract, text: value.to_string() });
        if contract == ContractName::AgentInput {
            let text = with_large_snapshot(value).to_string();
            documents.push(Document { name: format!("{contract}, large snapshot"), contract, text });
        }
    }
    Ok(documents)
}

/// The questions of the policy benchmark, by name.
pub fn questions() -> Outcome<Vec<(String, String)>> {
    let mut names: Vec<String> = Vec::new();
    for file in fs::read_dir(format!("{FOLDER}/documents/policy"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".json").map(str::to_owned));
    }
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let text = read(&format!("policy/{name}"))?.to_string();
            Ok((name, text))
        })
        .collect()
}

fn read(name: &str) -> Outcome<Value> {
    let path = format!("{FOLDER}/documents/{name}.json");
    Ok(serde_json::from_str(&fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?)?)
}

/// The same input with tasks and playbooks in its snapshot, as many as make it about 100 KB.
fn with_large_snapshot(mut input: Value) -> Value {
    let entries: Vec<Value> = (0..LARGE_SNAPSHOT_ENTRIES)
        .map(|number| {
            json!({
                "id": format!("0193a1f2-{number:04x}-7c31-8a4e-3f5b6c7d0000"),
                "type": if number % 2 == 0 { "task" } else { "playbook" },
                "createdAt": format!("2026-03-03T{:02}:{:02}:07.250Z", number / 60 % 24, number % 60),
                "payload": {
                    "title": format!("Passo {number}: rever a verba de \"estofados\"\tcom o cliente"),
                    "score": f64::from(u16::try_from(number).unwrap_or_default()) / 7.0,
                    "isOpen": number % 3 == 0,
                    "tags": ["pago", "revisão", null],
                },
                "lineage": { "dependsOnLedgerIds": [format!("0193a1f2-{number:04x}-7c31-8a4e-3f5b6c7dffff")] },
            })
        })
        .collect();
    if let Some(snapshot) = input.get_mut("intelligenceSnapshot").and_then(Value::as_object_mut) {
        snapshot.insert("recent".to_owned(), Value::from(entries));
    }
    input
}
