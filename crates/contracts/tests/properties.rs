//! Laws that hold for every input: nothing panics, canonical text is stable and means the same, and the text of a valid
//! document reads back equal.
#![cfg(test)]

mod documents;

use crealeph_contracts::ContractName;
use crealeph_contracts::json::{Limits, Node, NodeKind, canonical, number_text, parse, pretty, push_text};
use documents::mutation::{mutated, mutations};
use documents::{VALID, is_valid_and_reads_back, violations};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Parses, judges by every contract, and checks the promises for the result.
fn survives(bytes: &[u8]) {
    let (document, faults) = parse(bytes, &Limits::default());
    for fault in &faults {
        assert!(fault.span.0 <= bytes.len(), "{fault:?}");
        assert!(!fault.message.is_empty());
    }
    assert!(document.is_some() || !faults.is_empty(), "nothing was read and nothing was said");
    if let Some(document) = &document {
        pretty(document.root());
        if faults.is_empty() {
            stays_canonical(document.root());
        }
    }
    for &contract in ContractName::ALL {
        let violations = violations(contract, bytes);
        assert!(violations.len() >= faults.len());
        for violation in &violations {
            assert!(violation.pointer.is_empty() || violation.pointer.starts_with('/'), "{violation:?}");
            assert!(!violation.clause.is_empty() && !violation.message.is_empty(), "{violation:?}");
        }
        let is_valid = is_valid_and_reads_back(contract, bytes).unwrap();
        assert_eq!(is_valid, violations.is_empty(), "{contract}: {violations:?}");
        assert_eq!(contract.validate(bytes, &Limits::default()).len(), violations.len());
    }
}

fn stays_canonical(node: Node<'_>) {
    let once = canonical(node);
    let (document, faults) = parse(once.as_bytes(), &Limits::outside(usize::MAX));
    assert_eq!(faults, [], "{once}");
    assert_eq!(canonical(document.unwrap().root()), once);
}

/// A JSON value whose members are in order and have distinct keys.
#[derive(Clone, Debug)]
enum Model {
    Null,
    Boolean(bool),
    Number(f64),
    Text(String),
    Array(Vec<Model>),
    Object(Vec<(String, Model)>),
}

fn models() -> impl Strategy<Value = Model> {
    let numbers = prop_oneof![
        any::<f64>().prop_filter("JSON has only finite numbers", |number| number.is_finite()),
        (-1_000_000i64..1_000_000).prop_map(|number| number as f64),
        select(vec![0.0, -0.0, 1e21, 1e-7, 123456789012345680000.0, 5e-324, f64::MAX]),
    ];
    let leaf = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Boolean),
        numbers.prop_map(Model::Number),
        text().prop_map(Model::Text),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let objects = vec((text(), inner.clone()), 0..24).prop_map(|mut members| {
            let mut seen = std::collections::BTreeSet::new();
            members.retain(|(key, _)| seen.insert(key.clone()));
            Model::Object(members)
        });
        prop_oneof![vec(inner, 0..6).prop_map(Model::Array), objects]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", "[a-c\"\\\\/\u{0}-\u{1f}é€😀\u{fb33}]{0,10}", Just(String::new())]
}

/// How a text is spelt, one random byte for each choice.
struct Spelling<'a> {
    choices: &'a [u8],
    next: usize,
}

impl Spelling<'_> {
    fn choose(&mut self, among: usize) -> usize {
        let choice = self.choices[self.next % self.choices.len()];
        self.next += 1;
        usize::from(choice) % among
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", "", " ", "\n\t", "\r\n  "][self.choose(6)]);
    }

    fn write(&mut self, out: &mut String, model: &Model) {
        self.space(out);
        match model {
            Model::Null => out.push_str("null"),
            Model::Boolean(value) => out.push_str(&value.to_string()),
            Model::Number(value) => out.push_str(&match self.choose(3) {
                0 => format!("{value:e}"),
                1 => format!("{value:E}").replace("E-", "E-00"),
                _ => number_text(*value),
            }),
            Model::Text(text) => self.text(out, text),
            Model::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.write(out, element);
                }
                self.space(out);
                out.push(']');
            }
            Model::Object(members) => {
                let mut order: Vec<_> = members.iter().collect();
                for at in (1..order.len()).rev() {
                    order.swap(at, self.choose(at + 1));
                }
                out.push('{');
                for (at, (key, value)) in order.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.space(out);
                    self.text(out, key);
                    self.space(out);
                    out.push(':');
                    self.write(out, value);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    fn text(&mut self, out: &mut String, text: &str) {
        if self.choose(2) == 0 {
            return push_text(out, text);
        }
        out.push('"');
        for unit in text.encode_utf16() {
            out.push_str(&format!("\\u{unit:04X}"));
        }
        out.push('"');
    }
}

fn same(node: Node<'_>, model: &Model) -> bool {
    match model {
        Model::Null => node.kind() == NodeKind::Null,
        Model::Boolean(value) => node.boolean() == Some(*value),
        Model::Number(value) => node.number() == Some(*value),
        Model::Text(text) => node.string().is_some_and(|string| string == *text),
        Model::Array(elements) => {
            node.elements().count() == elements.len()
                && node.elements().zip(elements).all(|(node, model)| same(node, model))
        }
        Model::Object(members) => {
            node.members().count() == members.len()
                && members.iter().all(|(key, model)| node.member(key).is_some_and(|node| same(node, model)))
        }
    }
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "d800",
    "\\udc00",
    "\\ud83d\\ude00",
    "\"tenantId\"",
    "\"a\":",
    "true",
    "false",
    "null",
    "nul",
    "0",
    "-",
    "01",
    "1.5",
    "e",
    "E+",
    "9007199254740993",
    "1e999",
    " ",
    "\n",
    "\u{feff}",
    "é",
    "\u{0}",
    "{\"a\":",
    "[[[[",
    "]]]]",
    "\"status\":\"failed\"",
    "\"payload\":{",
    "'",
    "//",
    "NaN",
    "---",
    "\u{7f}",
    "😀",
];

/// A change to bytes: some are cut out and others put in.
type Splice = (Index, usize, Vec<u8>);

fn spliced(text: &str, splices: &[Splice]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (place, length, inserted) in splices {
        let start = place.index(bytes.len() + 1);
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, inserted.iter().copied());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    // holds: invariant 4
    fn any_bytes_are_parsed_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        survives(&bytes);
    }

    #[test]
    // holds: invariant 4
    fn almost_json_is_parsed_without_a_panic(pieces in vec(select(PIECES), 0..60)) {
        survives(pieces.concat().as_bytes());
    }

    #[test]
    // holds: invariant 4
    fn broken_documents_are_parsed_without_a_panic(
        (_, text) in select(VALID),
        splices in vec((any::<Index>(), 0usize..40, vec(any::<u8>(), 0..4)), 0..4),
    ) {
        survives(&spliced(text, &splices));
    }

    #[test]
    // holds: invariant 4
    fn spliced_documents_are_parsed_without_a_panic(
        (_, text) in select(VALID),
        splices in vec((any::<Index>(), 0usize..3, select(PIECES).prop_map(|piece| piece.as_bytes().to_vec())), 1..6),
    ) {
        survives(&spliced(text, &splices));
    }

    #[test]
    fn changed_documents_read_back_when_they_are_valid((_, text) in select(VALID), changes in mutations()) {
        let document = mutated(serde_json::from_str(text).unwrap(), &changes);
        survives(document.to_string().as_bytes());
    }

    #[test]
    fn canonical_text_has_one_form_for_every_spelling(
        model in models(),
        first in vec(any::<u8>(), 1..40),
        second in vec(any::<u8>(), 1..40),
    ) {
        let texts = [first, second].map(|choices| {
            let mut text = String::new();
            Spelling { choices: &choices, next: 0 }.write(&mut text, &model);
            let (document, faults) = parse(text.as_bytes(), &Limits::default());
            assert_eq!(faults, [], "{text}");
            let document = document.unwrap();
            assert!(same(document.root(), &model), "{text}");
            canonical(document.root())
        });
        prop_assert_eq!(&texts[0], &texts[1]);
        let (document, faults) = parse(texts[0].as_bytes(), &Limits::default());
        prop_assert_eq!(faults, []);
        let document = document.unwrap();
        prop_assert!(same(document.root(), &model), "{}", texts[0]);
        prop_assert_eq!(canonical(document.root()), texts[0].clone());
    }
}
