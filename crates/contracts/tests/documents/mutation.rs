//! Random changes to a document: mistakes that people and programs make, at any place in it.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// One change, at a place that is picked among all the values of the document.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    place: Index,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// Takes the value away, with its key.
    Remove,
    /// Adds a key next to it.
    AddKey(&'static str),
    /// Puts another value there.
    Replace(Value),
    /// Copies a value from another place of the document there.
    CopyFrom(Index),
    /// Adds a character at the end of the string.
    Append(char),
    /// Repeats the last element of the array.
    Repeat,
    /// Empties the array, object or string.
    Clear,
}

/// A few changes to one document.
pub(crate) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let change = prop_oneof![
        3 => Just(Change::Remove),
        1 => select(KEYS).prop_map(Change::AddKey),
        6 => replacement().prop_map(Change::Replace),
        2 => any::<Index>().prop_map(Change::CopyFrom),
        2 => select(CHARACTERS).prop_map(Change::Append),
        1 => Just(Change::Repeat),
        2 => Just(Change::Clear),
    ];
    let mutation = (any::<Index>(), change).prop_map(|(place, change)| Mutation { place, change });
    proptest::collection::vec(mutation, 0..4)
}

/// The document after the changes.
pub(crate) fn mutated(mut document: Value, mutations: &[Mutation]) -> Value {
    for Mutation { place, change } in mutations {
        let places = places(&document);
        let pointer = place.get(&places);
        if matches!(change, Change::Remove) {
            remove(&mut document, pointer);
            continue;
        }
        let copied = match change {
            Change::CopyFrom(from) => document.pointer(from.get(places.as_slice()).as_str()).cloned(),
            _ => None,
        };
        let Some(value) = document.pointer_mut(pointer) else { continue };
        match (change, value) {
            (Change::Replace(other), value) => *value = other.clone(),
            (Change::CopyFrom(_), value) => *value = copied.unwrap_or_default(),
            (Change::AddKey(key), Value::Object(members)) => {
                members.insert((*key).to_owned(), json!("x"));
            }
            (Change::Append(character), Value::String(text)) => text.push(*character),
            (Change::Repeat, Value::Array(elements)) => elements.extend(elements.last().cloned()),
            (Change::Clear, Value::Array(elements)) => elements.clear(),
            (Change::Clear, Value::Object(members)) => members.clear(),
            (Change::Clear, Value::String(text)) => text.clear(),
            _ => {}
        }
    }
    document
}

/// The JSON Pointer of every value in the document, the outermost first.
fn places(document: &Value) -> Vec<String> {
    let mut places = vec![String::new()];
    let mut next = 0;
    while let Some(pointer) = places.get(next).cloned() {
        next += 1;
        let names: Vec<String> = match document.pointer(&pointer) {
            Some(Value::Object(members)) => {
                members.keys().map(|key| key.replace('~', "~0").replace('/', "~1")).collect()
            }
            Some(Value::Array(elements)) => (0..elements.len()).map(|at| at.to_string()).collect(),
            _ => Vec::new(),
        };
        places.extend(names.iter().map(|name| format!("{pointer}/{name}")));
    }
    places
}

fn remove(document: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    match document.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(elements)) => {
            if let Ok(at) = name.parse::<usize>() {
                elements.remove(at);
            }
        }
        _ => {}
    }
}

fn replacement() -> impl Strategy<Value = Value> {
    let long =
        select(vec!["x".repeat(256), "x".repeat(257), "é".repeat(128), "é".repeat(129), "é".repeat(257)]);
    prop_oneof![
        6 => select(texts()).prop_map(Value::from),
        1 => long.prop_map(Value::from),
        4 => select(numbers()),
        4 => select(vec![
            json!(null), json!(true), json!(false), json!([]), json!({}), json!([null]), json!([[]]), json!([""]),
            json!(["x"]), json!(["x", "x", "y"]), json!([1, "x"]), json!({ "x": null }), json!({ "x": 1 }),
            json!({ "": {} }), json!({ "signalsAt": "2026-03-04T05:30:00Z" }), json!({ "signalsAt": "yesterday" }),
        ]),
    ]
}

fn numbers() -> Vec<Value> {
    let safe = (1u64 << 53) - 1;
    vec![
        json!(0),
        json!(1),
        json!(-1),
        json!(2),
        json!(0.5),
        json!(1.0),
        json!(-0.0),
        json!(1.5),
        json!(-0.25),
        json!(1.0000000000000002),
        json!(safe),
        json!(safe + 1),
        json!(safe + 2),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(9007199254740991.0),
        json!(9007199254740992.0),
        json!(1e15),
        json!(1e20),
        json!(1e308),
        json!(-1e308),
        json!(5e-324),
    ]
}

/// Words of every contract and words that only look like them, and strings that are empty or broken in each of the
/// ways that R1 and R2 name.
fn texts() -> Vec<&'static str> {
    let lists: [&[&str]; 6] = [
        &[
            "",
            " ",
            "\t\n",
            "\u{85}",
            "\u{a0}",
            "\u{3000}",
            "\u{2028}",
            "\u{200b}",
            "\u{feff}",
            "\u{1680}\u{205f}",
        ],
        &[
            "a\u{0}", "\u{1f}a", "a\u{7f}b", "a\u{85}b", "\u{9f}x", "a b", " a ", "a\u{a0}", "\u{0}", "é",
            "😀", "\n",
        ],
        &[
            "v1",
            "v2",
            "V1",
            "coherent",
            "partial",
            "stale",
            "Stale",
            "dry_run",
            "execute",
            "plan",
            "draft",
            "apply",
            "succeeded",
            "failed",
            "blocked",
            "cancelled",
            "planned",
            "running",
            "ALLOW",
            "BLOCK",
            "DEFER",
            "allow",
            "info",
            "critical",
            "block",
            "draft_only",
            "agent-0",
            "agent-10",
            "low",
            "seo_cluster",
            "task",
            "success",
            "failure",
            "denied",
            "timeout",
            "created",
            "deleted",
            "full",
            "remote",
            "run",
            "agent-builder",
            "execution_event",
            "COHERENCE_BLOCKED",
            "INVALID_REQUEST",
            "SNAPSHOT_EMPTY",
        ],
        &[
            "2026-03-04T05:30:00Z",
            "2027-03-04T05:30:00Z",
            "2026-02-30T05:30:00Z",
            "2026-03-04",
            "2026-03-04T05:30:00",
            "2026-03-04T24:00:00Z",
            "2026-03-04T05:30:60Z",
            "2026-03-04t05:30:00z",
            "2026-03-04T05:30:00.0000000001Z",
            "2026-03-04T05:30:00+24:00",
            "2026-03-04T05:30:00-00:00",
            "2026-03-04T05:30:00Z\n",
            "0000-01-01T00:00:00Z",
        ],
        &[
            "/",
            "/a",
            "a",
            "../a",
            "a/../..",
            "a/./b",
            "/..",
            "a\u{0}b",
            "/a\u{0}b",
            "0190A6F0-7C2E-7D31-8A4E-3F5B6C7D8E9F",
            "0190a6f07c2e7d318a4e3f5b6c7d8e9f",
            "00000000-0000-0000-0000-000000000000",
        ],
        &[
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
        ],
    ];
    lists.concat()
}

const KEYS: &[&str] = &[
    "",
    "x",
    "dryrun",
    "Ok",
    "tenant_id",
    "extra/key",
    "a~b",
    "error",
    "result",
    "cancelReason",
    "blocking_reason",
    "denial_reason",
    "proof_script",
    "hash",
    "model",
    "reason",
    "__proto__",
];

const CHARACTERS: &[char] =
    &[' ', '\n', '\u{0}', '\u{7f}', '\u{85}', '\u{a0}', '\u{200b}', '\u{3000}', 'é', '😀', 'x', '\u{10ffff}'];
