//! The rules about exports and proofs, as data: each case in `cases/` edits one honest log before or after it is hashed and
//! signed, and gives the full answer of the check.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects"
)]

mod log;
#[path = "../second/mod.rs"]
mod second;

use std::path::Path;

use crealeph_contracts::digest::Sha256;
use crealeph_verify::{ExportVerifier, Finding, VerifierKey, verify_proof};
use serde_json::{Map, Value, json};

use log::{Key, ORIGIN, canonical_text, checkpoint, entries, leaf, note, proof};

fn keys(case: &Map<String, Value>, name: &str) -> Vec<Key> {
    let names = case.get(name).map_or("own", |names| names.as_str().unwrap());
    names.split(' ').filter(|name| !name.is_empty()).map(Key::named).collect()
}

fn verifiers(case: &Map<String, Value>) -> Vec<VerifierKey> {
    keys(case, "keys").into_iter().map(|key| key.verifier).collect()
}

/// Applies edits, each a JSON pointer with a new value; `null` removes.
fn edit(document: &mut Value, edits: Option<&Value>) {
    for (pointer, value) in edits.into_iter().flat_map(|edits| edits.as_object().unwrap()) {
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("nothing is at `{pointer}`"));
        match (parent, value) {
            (Value::Object(members), Value::Null) => assert!(members.remove(last).is_some(), "{pointer}"),
            (Value::Object(members), value) => drop(members.insert(last.to_owned(), value.clone())),
            (Value::Array(elements), Value::Null) => drop(elements.remove(last.parse().unwrap())),
            (Value::Array(elements), value) if last == "-" => elements.push(value.clone()),
            (Value::Array(elements), value) => elements[last.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("`{pointer}` leads into a scalar"),
        }
    }
}

fn log_of(case: &Map<String, Value>) -> (Vec<Value>, Vec<Sha256>) {
    let mut entries = entries();
    edit(&mut entries, case.get("entries"));
    let mut entries = entries.as_array().unwrap().clone();
    if let Some(count) = case.get("count") {
        entries.truncate(usize::try_from(count.as_u64().unwrap()).unwrap());
    }
    let leaves = entries.iter().map(leaf).collect();
    (entries, leaves)
}

/// The lines of an export: a header, and after the entries at `checkpoints` (2 and 6) a checkpoint.
fn lines(case: &Map<String, Value>) -> Vec<String> {
    let (entries, leaves) = log_of(case);
    let origin = case.get("origin").map_or(ORIGIN, |origin| origin.as_str().unwrap());
    let mut header = json!({
        "entries": entries.len(), "format": "crealeph-ledger-export-v1", "origin": origin, "tenantId": "t",
    });
    edit(&mut header, case.get("header"));
    let mut lines = vec![header.to_string()];
    let checkpoints = case.get("checkpoints").map_or(json!([2, entries.len()]), Value::clone);
    for (number, (entry, hash)) in (1_usize..).zip(entries.iter().zip(&leaves)) {
        lines.push(format!("{{\"entry\":{},\"leaf\":\"{hash}\"}}", canonical_text(entry)));
        if checkpoints.as_array().unwrap().contains(&json!(number)) {
            let origin = case.get("checkpoint_origin").map_or(origin, |origin| origin.as_str().unwrap());
            let mut text = checkpoint(origin, leaves.get(..number).unwrap(), &keys(case, "signers"));
            if let Some(body) = case.get("checkpoint_text") {
                text = note(body.as_str().unwrap(), &keys(case, "signers"));
            }
            lines.push(json!({ "checkpoint": text }).to_string());
        }
    }
    for change in case.get("lines").into_iter().flat_map(|changes| changes.as_array().unwrap()) {
        let change: Vec<&str> =
            change.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let at: usize = change[1].parse().unwrap();
        match change.as_slice() {
            ["drop", _] => drop(lines.remove(at)),
            ["swap", _, other] => lines.swap(at, other.parse().unwrap()),
            ["again", _] => lines.insert(at, lines[at].clone()),
            ["replace", _, from, to] => {
                assert!(lines[at].contains(from), "`{from}` is not in {}", lines[at]);
                lines[at] = lines[at].replace(from, to);
            }
            _ => panic!("not a change: {change:?}"),
        }
    }
    lines
}

/// The checkpoints that the user of a case kept.
fn kept_notes(case: &Map<String, Value>) -> Vec<String> {
    let (_, honest) = log_of(&Map::new());
    let kept = case.get("kept").and_then(Value::as_array).cloned().unwrap_or_default();
    kept.iter()
        .map(|size| {
            let size = usize::try_from(size.as_u64().unwrap()).unwrap();
            let mut leaves = honest.clone();
            leaves.resize(size.max(leaves.len()), honest[0]);
            let origin = case.get("kept_origin").map_or(ORIGIN, |origin| origin.as_str().unwrap());
            checkpoint(origin, &leaves[..size], &keys(case, "kept_signers"))
        })
        .collect()
}

/// The verifier's answer about an export.
fn export_answer(case: &Map<String, Value>) -> Result<String, Finding> {
    let kept = kept_notes(case);
    let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
    let mut verifier = ExportVerifier::new(verifiers(case), &kept)?;
    if case.contains_key("keys_of_the_ledger") {
        verifier = verifier.with_keys_of_the_ledger();
    }
    let lines = lines(case);
    for line in &lines {
        verifier.line(line)?;
    }
    let counted = verifier.entries();
    let verified = verifier.finish()?;
    assert_eq!(counted, verified.entries);
    // What counts as signed ends with a signed checkpoint, after exactly the entries that it covers.
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let signed: Vec<&str> =
        text.get(..usize::try_from(verified.signed_bytes).unwrap()).unwrap().lines().collect();
    let is_checkpoint = |line: &&str| line.starts_with("{\"checkpoint\"");
    assert_eq!(signed.last().is_some_and(is_checkpoint), verified.checkpoints > 0);
    let entries = signed.iter().skip(1).filter(|line| !is_checkpoint(line)).count() as u64;
    assert_eq!(kept.is_empty().then_some(entries), kept.is_empty().then_some(verified.signed_entries));
    let (_, leaves) = log_of(case);
    let count = usize::try_from(verified.entries).unwrap();
    assert_eq!(verified.root, log::root(&leaves[..count]));
    Ok(format!(
        "ok, {} entries of {} in {}; {} signed by {} checkpoints, {} unknown, {} legacy",
        verified.entries,
        verified.tenant_id,
        verified.origin,
        verified.signed_entries,
        verified.checkpoints,
        verified.unknown_checkpoints,
        verified.legacy_entries
    ))
}

/// The proof file of one entry, and the entry's text.
fn proof_file(case: &Map<String, Value>, index: usize) -> (String, String) {
    let (entries, leaves) = log_of(case);
    let mut text = case.get("index").map_or_else(
        || proof(index, &leaves, &keys(case, "signers")),
        |other| proof(usize::try_from(other.as_u64().unwrap()).unwrap(), &leaves, &keys(case, "signers")),
    );
    for pair in case.get("proof_text").into_iter().flat_map(|pairs| pairs.as_array().unwrap()) {
        let (from, to) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        assert!(text.contains(from), "`{from}` is not in {text}");
        text = text.replacen(from, to, 1);
    }
    let mut file = json!({ "format": "crealeph-proof-v1", "proof": text });
    edit(&mut file, case.get("file"));
    let file = file.to_string();
    let entry = canonical_text(&entries[index]);
    let mut file = match case.contains_key("without_entry") {
        true => file,
        false => file.replacen('{', &format!("{{\"entry\":{entry},"), 1),
    };
    for pair in case.get("file_text").into_iter().flat_map(|pairs| pairs.as_array().unwrap()) {
        file = file.replacen(pair[0].as_str().unwrap(), pair[1].as_str().unwrap(), 1);
    }
    (file, entry)
}

/// The verifier's answer about the proof of one entry.
fn proof_answer(case: &Map<String, Value>, index: usize) -> String {
    let (file, entry) = proof_file(case, index);
    match verify_proof(file.as_bytes(), &verifiers(case)) {
        Ok(proven) => {
            assert_eq!(proven.entry, entry);
            format!("ok, {} is entry {} of {}", proven.id, proven.seq, proven.checkpoint.size)
        }
        Err(error) => error.to_string(),
    }
}

/// Every case, with its place.
fn cases() -> Vec<(String, Map<String, Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports/cases");
    let mut cases = Vec::new();
    for file in ["exports.jsonl", "proofs.jsonl", "rules.jsonl"] {
        for (line, text) in (1..).zip(std::fs::read_to_string(folder.join(file)).unwrap().lines()) {
            let place = format!("{file}:{line}");
            let case = serde_json::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}"));
            cases.push((place, case));
        }
    }
    cases
}

#[test]
fn every_case_gives_its_expected_answer() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (place, case) in cases() {
        {
            let expected = case["expect"].as_str().unwrap();
            let answer = match case.get("proof_of") {
                Some(index) => proof_answer(&case, usize::try_from(index.as_u64().unwrap()).unwrap()),
                None => match export_answer(&case) {
                    Ok(answer) => answer,
                    Err(finding) => format!("{} at {:?}", finding, finding.seq),
                },
            };
            // If the rest is a contract's own message, the case ends in `…`.
            let is_met = match expected.strip_suffix('…') {
                Some(start) => answer.starts_with(start),
                None => answer == expected,
            };
            if !is_met {
                wrong.push(format!("{place}: {}\n  expected {expected}\n  answered {answer}", case["about"]));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 60, "{count} cases");
}

/// The second verifier's question about a case, and how its answer begins if it agrees with the first.
fn question(case: &Map<String, Value>) -> (Value, String) {
    let keys: Vec<String> = keys(case, "keys").iter().map(|key| key.text.clone()).collect();
    if let Some(index) = case.get("proof_of") {
        let index = usize::try_from(index.as_u64().unwrap()).unwrap();
        let (file, _) = proof_file(case, index);
        let answer = proof_answer(case, index);
        let kind = if answer.contains("not a proof") { "unreadable at " } else { "" };
        let expected = if answer.starts_with("ok") { answer } else { kind.to_owned() };
        return (json!({ "ask": "proof", "file": file, "keys": keys }), expected);
    }
    let lenient = case.contains_key("keys_of_the_ledger");
    let question = json!({
        "ask": "export", "lines": lines(case), "keys": keys, "kept": kept_notes(case), "lenient": lenient,
    });
    let expected = match export_answer(case) {
        Ok(answer) => format!("{answer}; root "),
        Err(finding) => {
            let seq = finding.seq.map_or_else(|| "null".to_owned(), |seq| seq.to_string());
            format!("{} at {seq}: ", finding.kind.as_str())
        }
    };
    (question, expected)
}

#[test]
fn the_second_verifier_agrees_about_every_case() {
    let cases = cases();
    let (questions, expected): (Vec<Value>, Vec<String>) =
        cases.iter().map(|(_, case)| question(case)).unzip();
    let answers = second::answers(&questions);
    let mut wrong = Vec::new();
    for (((place, case), expected), answer) in cases.iter().zip(expected).zip(answers) {
        let answer = answer.as_str().unwrap();
        let is_ok = answer.starts_with("ok");
        if !answer.starts_with(&expected)
            || is_ok != expected.starts_with("ok")
            || answer.starts_with("error")
        {
            wrong.push(format!("{place}: {}\n  first {expected}\n  second {answer}", case["about"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
