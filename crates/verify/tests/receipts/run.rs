//! One run as an honest program leaves it, sealed with fixed keys: receipt, statement, envelope, folder, states and contents.
//! A case edits it at any step, before or after it is signed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::{Blake3, ContentDigests, Sha256};
use crealeph_contracts::json::{Limits, canonical, parse};
use crealeph_verify::{StateEntries, StateEntry, VerifierKey, state_hash};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Map, Value, json};

pub(crate) const RUN: &str = "01010101-0101-0101-0101-010101010101";
pub(crate) const WORKSPACE: &str = "crealeph-workspace/one";
pub(crate) const ITEM: &str = r#"{"agent_id":"agent-3","budget":{"complexity":"low","time_estimate_ms":1},"dependencies":[],"description":"fix it","id":"wi-42"}"#;
const SCRIPT: &str = "#!/bin/sh\n";
const DIFF: &str = "--- a\n";

/// Files by path: kind and content.
pub(crate) type Files = BTreeMap<String, (String, String)>;

fn files<const N: usize>(files: [(&str, &str, &str); N]) -> Files {
    files.map(|(path, kind, content)| (path.to_owned(), (kind.to_owned(), content.to_owned()))).into()
}

/// The workspace before and after a run.
pub(crate) struct States {
    pub(crate) before: Files,
    pub(crate) after: Files,
}

impl States {
    /// An honest run's, edited: a path with a content puts a file there, `null` removes it.
    pub(crate) fn edited(before: &Map<String, Value>, after: &Map<String, Value>) -> States {
        let mut states = States {
            before: files([("gone", "file", "gone\n"), ("kept", "file", "kept\n"), ("old", "file", "one\n")]),
            after: files([
                ("kept", "file", "kept\n"),
                ("link", "link", "kept"),
                ("new/tool", "exec", "new\n"),
                ("old", "file", "two\n"),
            ]),
        };
        for (files, edits) in [(&mut states.before, before), (&mut states.after, after)] {
            for (path, content) in edits {
                match content.as_str() {
                    Some(content) => {
                        drop(files.insert(path.clone(), ("file".to_owned(), content.to_owned())))
                    }
                    None => assert!(files.remove(path).is_some(), "{path}"),
                }
            }
        }
        states
    }
}

pub(crate) fn hash_of(files: &Files) -> Blake3 {
    let entry =
        |kind: &str, content: &str| StateEntry { kind: kind.into(), digest: Blake3::of(content.as_bytes()) };
    let entries: StateEntries =
        files.iter().map(|(path, (kind, content))| (path.clone(), entry(kind, content))).collect();
    state_hash(&entries)
}

/// The whole manifest of a state.
pub(crate) fn manifest(files: &Files) -> String {
    let mut text = "crealeph-state-v1\n".to_owned();
    for (path, (kind, content)) in files {
        text.push_str(&format!("{kind} {} {} {path}\0", Blake3::of(content.as_bytes()), content.len()));
        if kind == "link" {
            text.push_str(&format!("{content}\0"));
        }
    }
    text
}

/// The files beside the receipt in the run's folder.
pub(crate) fn beside() -> BTreeMap<String, String> {
    let files = [("change.diff", DIFF), ("replay-agent-3.sh", SCRIPT), ("work-item.json", ITEM)];
    files.map(|(name, content)| (name.to_owned(), content.to_owned())).into()
}

pub(crate) fn canonical_text(value: &Value) -> String {
    let text = value.to_string();
    let (document, faults) = parse(text.as_bytes(), &Limits::own(usize::MAX));
    assert!(faults.is_empty(), "{text}");
    canonical(document.unwrap().root())
}

fn digests(content: &str) -> Value {
    let digests = ContentDigests::of(content.as_bytes());
    json!({
        "blake3": digests.blake3.to_string(),
        "gitBlob": digests.git_blob.as_str(),
        "sha256": digests.sha256.to_string(),
    })
}

fn subject(name: &str, content: &str) -> Value {
    json!({ "name": name, "digest": digests(content) })
}

/// The receipt, without its own hash.
pub(crate) fn receipt(states: &States) -> Value {
    let hash = |content: &str| Blake3::of(content.as_bytes()).to_string();
    json!({
        "id": RUN,
        "work_item_id": "wi-42",
        "agent_id": "agent-3",
        "phase": "run",
        "started_at": "2026-03-04T06:00:00.000Z",
        "finished_at": "2026-03-04T06:00:02.250Z",
        "before_hash": hash_of(&states.before).to_string(),
        "after_hash": hash_of(&states.after).to_string(),
        "toolchain_version": "crealeph 0.1.0",
        "artifacts": [
            { "path": "gone", "change": "deleted" },
            { "path": "link", "change": "created", "hash": hash("kept") },
            { "path": "new/tool", "change": "created", "hash": hash("new\n") },
            { "path": "old", "change": "modified", "hash": hash("two\n") },
        ],
        "proof_artifacts": [{ "path": "replay-agent-3.sh", "hash": hash(SCRIPT) }],
        "delta_o": [], "delta_pi": [], "delta_lambda": [], "delta_q": [],
        "tool_trace": [{ "tool": "Edit" }],
        "sandbox_strength": "full",
        "connections": [],
        "status": "succeeded",
    })
}

/// The same with `receipt_hash`, unless the case brought one.
pub(crate) fn with_hash(mut receipt: Value) -> Value {
    let hash = Blake3::of(canonical_text(&receipt).as_bytes()).to_string();
    receipt.as_object_mut().unwrap().entry("receipt_hash").or_insert(Value::String(hash));
    receipt
}

/// The statement of a receipt.
pub(crate) fn statement(receipt: &Value, states: &States, signers: &[&Key]) -> Value {
    let mut subjects = vec![subject("RECEIPT.json", &canonical_text(receipt))];
    for artifact in receipt["artifacts"].as_array().unwrap() {
        let path = artifact["path"].as_str().unwrap();
        let content = states.after.get(path).filter(|_| artifact["change"] != "deleted");
        subjects.extend(content.map(|(_, content)| subject(path, content)));
    }
    let files: Vec<Value> = beside().iter().map(|(name, content)| subject(name, content)).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "urn:crealeph:predicate:work-run:v2",
        "predicate": {
            "workspace": WORKSPACE,
            "signers": signers.iter().map(|key| key.id.clone()).collect::<Vec<_>>(),
            "work_item": serde_json::from_str::<Value>(ITEM).unwrap(),
            "sandbox": { "strength": "full", "layers": ["seccomp"], "missing": [] },
            "agent": {
                "name": "fixer",
                "command": ["python3", "agents/fixer.py", "{prompt}"],
                "program": "/usr/bin/python3",
                "program_blake3": Blake3::of(b"python").to_string(),
                "version": "Python 3.13.5",
                "scripts": [{ "path": "/shop/agents/fixer.py", "hash": Blake3::of(b"fixer").to_string() }],
                "models": ["model-one"],
            },
            "started_by": account(),
            "verdicts": [{
                "decision": "approved", "by": "ana", "reason": "read it", "at": "2026-03-04T06:00:02.000Z",
                "account": account(),
            }],
            "hidden": { "paths": [".env"], "left_off": 3 },
            "files": files,
            "receipt": receipt,
        },
    })
}

fn account() -> Value {
    json!({ "user": "ana", "host": "desk", "key": "SHA256:RXm/ruZ0eTzRXKwi1AQEDynB0VgHQ2ac9KPSFdf/YnA" })
}

pub(crate) fn envelope(kind: &str, payload: &str, signers: &[&Key]) -> Value {
    let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
    let signature = |key: &Key| STANDARD.encode(key.secret.sign(message.as_bytes()).to_bytes());
    let signatures: Vec<Value> =
        signers.iter().map(|key| json!({ "keyid": key.id, "sig": signature(key) })).collect();
    json!({ "payload": STANDARD.encode(payload), "payloadType": kind, "signatures": signatures })
}

pub(crate) struct Key {
    secret: SigningKey,
    /// `name+id`.
    pub(crate) id: String,
    /// As `crealeph work key` prints it.
    pub(crate) text: String,
    pub(crate) verifier: VerifierKey,
}

impl Key {
    /// `own` and `second` sign for the workspace, `foreign` for another.
    pub(crate) fn named(name: &str) -> Key {
        let (workspace, seed) = match name {
            "own" => (WORKSPACE, 1),
            "second" => (WORKSPACE, 2),
            "foreign" => ("crealeph-workspace/two", 3),
            _ => panic!("no key is called `{name}`"),
        };
        let secret = SigningKey::from_bytes(&[seed; 32]);
        let typed = [&[1], secret.verifying_key().as_bytes().as_slice()].concat();
        let hash = Sha256::of(&[workspace.as_bytes(), b"\n", &typed].concat());
        let id: String = hash.as_bytes()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("{workspace}+{id}");
        let text = format!("{id}+{}", STANDARD.encode(&typed));
        let verifier = VerifierKey::parse(&text).unwrap();
        Key { secret, id, text, verifier }
    }
}

/// Applies edits, each a JSON pointer with a new value; `null` removes, and a pointer that ends in `/-` appends.
pub(crate) fn edit(document: &mut Value, edits: &Map<String, Value>) {
    for (pointer, value) in edits {
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("nothing is at `{pointer}`"));
        match (parent, value) {
            (Value::Object(members), Value::Null) => assert!(members.remove(last).is_some(), "{pointer}"),
            (Value::Object(members), value) => drop(members.insert(last.to_owned(), value.clone())),
            (Value::Array(elements), value) if last == "-" => elements.push(value.clone()),
            (Value::Array(elements), Value::Null) => drop(elements.remove(last.parse().unwrap())),
            (Value::Array(elements), value) => elements[last.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("`{pointer}` leads into a scalar"),
        }
    }
}
