//! The building blocks of the second verifier, in JavaScript, against the libraries that the first one uses: hashes, strict and
//! canonical JSON, Merkle trees, keys that prove nothing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, reason = "tests")]

#[path = "second/mod.rs"]
mod second;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::json::{Limits, canonical, parse};
use crealeph_verify::{verify_consistency, verify_inclusion};
use serde_json::{Value, json};

/// Asks all of them at once, and compares.
fn assert_agreed(asked: Vec<(Value, Value)>) {
    let (questions, expected): (Vec<Value>, Vec<Value>) = asked.into_iter().unzip();
    for ((question, expected), answer) in questions.iter().zip(expected).zip(second::answers(&questions)) {
        assert_eq!(answer, expected, "{question}");
    }
}

#[test]
fn hashes_at_every_boundary() {
    let around = |middle: usize| [middle - 1, middle, middle + 1];
    let blocks = [1, 2, 15, 16].into_iter().flat_map(|count| around(count * 64));
    let chunks =
        [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 64, 100].into_iter().flat_map(|count| around(count * 1024));
    let asked =
        [0, 1, 2, 3, 4, 31, 32, 55, 56, 119, 120].into_iter().chain(blocks).chain(chunks).map(|length| {
            let message: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let hashes = json!([Blake3::of(&message).to_string(), Sha256::of(&message).to_string()]);
            (json!({ "ask": "hashes", "length": length }), hashes)
        });
    assert_agreed(asked.collect());
}

#[test]
fn json_is_read_and_written_alike() {
    let mut texts: Vec<Vec<u8>> = [
        "",
        " ",
        "null",
        " true ",
        "false",
        "nul",
        "truefalse",
        "1 2",
        "[1,]",
        "[,1]",
        "{,}",
        r#"{"a":1,}"#,
        "[",
        "{",
        "}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{a:1}"#,
        "{'a':1}",
        "[1 2]",
        "// x\n1",
        "\u{feff}1",
        "[]",
        "{}",
        "[[],{}]",
        "\t[\r\n1 ]",
        "\u{a0}1",
        "01",
        "-",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "1_0",
        "NaN",
        "Infinity",
        "-0",
        "0.0",
        "1.0",
        "1e0",
        "100e-2",
        "1e21",
        "1e-7",
        "0.000001",
        "123456789012345",
        "1234567890123456",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "-9007199254740993",
        "295147905179352825856",
        "295147905179352830000",
        "1e308",
        "1e309",
        "-1e309",
        "5e-324",
        "1e-400",
        "333333333.33333329",
        "4.50",
        "2e-3",
        "10000000000000000000000",
        r#""""#,
        r#""a"#,
        r#""\"#,
        r#""\x""#,
        r#""\u12""#,
        r#""\u00e9""#,
        r#""\ud83d\ude00""#,
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83d\u0041""#,
        r#""\ud83dx""#,
        r#""\uD83D\uDE00""#,
        "\"\u{1}\"",
        "\"\n\"",
        "\"\u{7f}\u{80}\u{2028}\"",
        r#""\b\f\n\r\t\/\\\"\u0000\u001f""#,
        "\"\u{10ffff}\u{fffd}\"",
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"b":1,"a":{"d":1,"c":2}}"#,
        "{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{20ac}\":3,\"\\r\":4,\"1\":5}",
        r#"{"__proto__":1,"constructor":2,"toString":3}"#,
        r#"{"a":[{"b":[1,[2,{"c":null}]]}],"":" "}"#,
        "\"\\ud800\\udc00\"",
    ]
    .into_iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    texts.extend([
        b"\"\xff\"".to_vec(),
        b"\"\xed\xa0\x80\"".to_vec(),
        b"\"\xc0\x80\"".to_vec(),
        b"[1]\0".to_vec(),
    ]);
    texts.extend([191, 192, 193].map(|depth| ["[".repeat(depth), "]".repeat(depth)].concat().into_bytes()));
    let asked = texts.iter().map(|text| {
        let (document, faults) = parse(text, &Limits::own(1 << 20));
        let expected = document.filter(|_| faults.is_empty()).map(|document| canonical(document.root()));
        (json!({ "ask": "json", "base64": STANDARD.encode(text) }), json!(expected))
    });
    assert_agreed(asked.collect());
}

fn parent(left: &Sha256, right: &Sha256) -> Sha256 {
    Sha256::of(&[&[1], left.as_bytes().as_slice(), right.as_bytes()].concat())
}

fn split(count: usize) -> usize {
    count.next_power_of_two() / 2
}

fn root(leaves: &[Sha256]) -> Sha256 {
    match leaves {
        [] => Sha256::of(b""),
        [one] => *one,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            parent(&root(left), &root(right))
        }
    }
}

fn path(index: usize, leaves: &[Sha256]) -> Vec<Sha256> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut inner, beside) = match index < left.len() {
        true => (path(index, left), root(right)),
        false => (path(index - left.len(), right), root(left)),
    };
    inner.push(beside);
    inner
}

/// SUBPROOF of RFC 6962 §2.1.2.
fn proof(older: usize, leaves: &[Sha256], is_known: bool) -> Vec<Sha256> {
    if older == leaves.len() {
        return if is_known { Vec::new() } else { vec![root(leaves)] };
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut inner, beside) = match older <= left.len() {
        true => (proof(older, left, is_known), root(right)),
        false => (proof(older - left.len(), right, false), root(left)),
    };
    inner.push(beside);
    inner
}

/// A path, and the same changed, cut, or longer.
fn variants(path: &[Sha256]) -> Vec<Vec<Sha256>> {
    let mut longer = path.to_vec();
    longer.push(Sha256::of(b"more"));
    let mut all = vec![path.to_vec(), longer];
    if let Some((_, cut)) = path.split_last() {
        all.push(cut.to_vec());
        let mut changed = path.to_vec();
        changed[path.len() / 2] = Sha256::of(b"another");
        all.push(changed);
    }
    all
}

#[test]
fn trees_and_their_proofs() {
    let leaves: Vec<Sha256> = (0..13u8).map(|number| Sha256::of(&[number])).collect();
    let texts = |hashes: &[Sha256]| hashes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut asked = Vec::new();
    for size in 0..=leaves.len() {
        let whole = root(&leaves[..size]);
        asked.push((json!({ "ask": "root", "leaves": texts(&leaves[..size]) }), json!(whole.to_string())));
        for index in 0..size {
            for (path, at) in variants(&path(index, &leaves[..size]))
                .iter()
                .flat_map(|path| [(path, index), (path, index ^ 1)])
            {
                let holds = verify_inclusion(&leaves[index], at as u64, size as u64, path, &whole);
                let (leaf, path, root) = (leaves[index].to_string(), texts(path), whole.to_string());
                let question = json!({ "ask": "inclusion", "leaf": leaf, "index": at, "size": size, "path": path, "root": root });
                asked.push((question, json!(holds)));
            }
        }
        for older in 1..=size {
            for (path, from) in variants(&proof(older, &leaves[..size], true))
                .iter()
                .flat_map(|path| [(path, older), (path, older - 1)])
            {
                let before = root(&leaves[..older]);
                let holds = verify_consistency(from as u64, size as u64, path, &before, &whole);
                let (before, whole) = (before.to_string(), whole.to_string());
                let question = json!({
                    "ask": "consistency", "older": from, "newer": size, "path": texts(path), "olderRoot": before, "newerRoot": whole,
                });
                asked.push((question, json!(holds)));
            }
        }
    }
    let good = asked.iter().filter(|(_, holds)| *holds == json!(true)).count();
    assert!(good > 150, "{good}");
    assert_agreed(asked);
}

/// Every encoding of a point whose order is small, and one of an ordinary key.
#[test]
fn weak_keys_are_known() {
    let low = |first: u8| [&[first][..], &[0; 31]].concat();
    let high = |first: u8| [&[first][..], &[0xff; 30], &[0x7f]].concat();
    let eighth = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05";
    let other = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a";
    let bytes = |text: &str| Sha256::parse(text).unwrap().as_bytes().to_vec();
    let ordinary = ed25519_dalek::SigningKey::from_bytes(&[7; 32]).verifying_key().to_bytes().to_vec();
    let keys =
        [low(0), low(1), low(2), high(0xec), high(0xed), high(0xee), bytes(eighth), bytes(other), ordinary];
    let mut asked = Vec::new();
    for key in keys {
        for sign in [0, 0x80] {
            let mut key: [u8; 32] = key.clone().try_into().unwrap();
            key[31] |= sign;
            let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            let parsed = ed25519_dalek::VerifyingKey::from_bytes(&key);
            // Bytes that are not a point are refused when they are read.
            if let Ok(parsed) = parsed {
                asked.push((json!({ "ask": "weak", "key": text }), json!(parsed.is_weak())));
            }
        }
    }
    assert!(asked.iter().filter(|(_, is_weak)| *is_weak == json!(true)).count() >= 8);
    assert_agreed(asked);
}
