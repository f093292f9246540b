//! Chains of receipts, as data: each case in `chains.jsonl` makes receipts that name each other, honest or forged, and gives the full
//! answer of both verifiers.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Blake3;
use crealeph_verify::{Finding, ReceiptChain, VerifierKey, verify_receipt};
use serde_json::{Map, Value, json};

use crate::run::{Key, WORKSPACE};
use crate::{Case, sealed, second};

/// A receipt of a chain.
struct Sealed {
    folder: String,
    hash: String,
    receipt: String,
    envelope: String,
}

/// The id of the run called `a`, `b` and so on.
fn id_of(name: &str) -> String {
    let byte = format!("0{name}");
    [4, 2, 2, 2, 6].map(|count| byte.repeat(count)).join("-")
}

/// The receipts of a case by name. `after` names the receipt before it, `retry_of` or `undoes` the one that it depends on; `run`
/// is the run that it claims for that. The rest is as in the cases of single receipts.
fn receipts(case: &Value) -> BTreeMap<String, Sealed> {
    let mut made: BTreeMap<String, Sealed> = BTreeMap::new();
    for (name, asked) in case["receipts"].as_object().unwrap() {
        let mut fields = asked.as_object().unwrap().clone();
        let mut edits = fields.remove("receipt").map_or_else(Map::new, |it| it.as_object().unwrap().clone());
        let mut text = |name: &str| fields.remove(name).map(|text| text.as_str().unwrap().to_owned());
        let hash_of = |name: &str| match made.get(name) {
            Some(earlier) => earlier.hash.clone(),
            None => "e".repeat(64),
        };
        edits.insert("/id".to_owned(), json!(id_of(name)));
        if let Some(before) = text("after") {
            edits.insert("/previous_receipt_hash".to_owned(), json!(hash_of(&before)));
        }
        for relation in ["retry_of", "undoes"] {
            if let Some(earlier) = text(relation) {
                let run = text("run").unwrap_or_else(|| earlier.clone());
                let value = json!({ "relation": relation, "run": id_of(&run), "hash": hash_of(&earlier) });
                edits.insert("/earlier_run".to_owned(), value);
            }
        }
        let folder = text("folder").map_or_else(|| id_of(name), |of| id_of(&of));
        fields.insert("receipt".to_owned(), Value::Object(edits));
        let (receipt, envelope) = sealed(&Case { fields, used: Default::default() });
        let hash =
            serde_json::from_str::<Value>(&receipt).unwrap()["receipt_hash"].as_str().unwrap().to_owned();
        made.insert(name.clone(), Sealed { folder, hash, receipt, envelope });
    }
    made
}

fn names(case: &Value, field: &str) -> Vec<String> {
    let names = case.get(field).map_or(&[][..], |names| names.as_array().unwrap());
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The first verifier's answer.
fn first_answer(given: &[(&String, &Sealed)], own: &Sealed, kept: &[String], keys: &[VerifierKey]) -> String {
    let verified = verify_receipt(own.receipt.as_bytes(), own.envelope.as_bytes(), keys).unwrap().read;
    let mut chain = ReceiptChain::new(&verified, keys);
    let added = given.iter().try_for_each(|(name, it)| {
        chain.add(&path(name), &it.folder, it.receipt.as_bytes(), it.envelope.as_bytes())
    });
    let kept: Vec<Blake3> = kept.iter().map(|hash| Blake3::parse(hash).unwrap()).collect();
    match added.and_then(|()| chain.position_of(&verified.receipt.receipt_hash, &kept)) {
        Ok(it) => format!("receipt {} of {}", it.position, it.length),
        Err(Finding { kind, seq, what }) => {
            let seq = seq.map_or_else(|| "null".to_owned(), |seq| seq.to_string());
            format!("{} at {seq}: {what}", kind.as_str())
        }
    }
}

fn path(name: &str) -> String {
    format!("runs/{name}")
}

#[test]
fn both_verifiers_judge_every_chain_as_its_case_says() {
    let (keys, second_key) = (["own", "foreign"].map(Key::named), Key::named("second"));
    let verifiers = keys.each_ref().map(|key| key.verifier.clone());
    let (mut questions, mut expected) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(include_str!("chains.jsonl").lines()) {
        let case: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("chains.jsonl:{line}: {error}"));
        let made = receipts(&case);
        let left_out = names(&case, "left_out");
        let own = &made[case["own"].as_str().unwrap()];
        let hash_of = |name: &String| made.get(name).map_or_else(|| "e".repeat(64), |it| it.hash.clone());
        let kept: Vec<String> = names(&case, "kept").iter().map(hash_of).collect();
        // The order in which they are found must not matter.
        let given: Vec<(&String, &Sealed)> =
            made.iter().rev().filter(|(name, _)| !left_out.contains(name)).collect();
        let answer = first_answer(&given, own, &kept, &verifiers);
        let mut said = case["expect"].as_str().unwrap().replace("$SECOND", &second_key.id);
        for (name, it) in &made {
            said = said.replace(&format!("#{name}"), &it.hash).replace(&format!("@{name}"), &id_of(name));
        }
        assert_eq!(answer, said, "chains.jsonl:{line}: {}", case["about"]);
        let asked: Vec<Value> = given
            .iter()
            .map(|(name, it)| {
                json!({ "path": path(name), "folder": it.folder, "receipt": it.receipt, "envelope": it.envelope })
            })
            .collect();
        questions.push(json!({
            "ask": "chain", "workspace": WORKSPACE, "receipts": asked, "keys": keys.each_ref().map(|key| &key.text),
            "own": own.hash, "kept": kept,
        }));
        expected.push((line, said));
    }
    assert!(expected.len() >= 15, "{} cases", expected.len());
    for ((line, said), answer) in expected.iter().zip(second::answers(&questions)) {
        assert_eq!(answer, json!(said), "chains.jsonl:{line}, second verifier");
    }
}
