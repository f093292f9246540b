//! Documents made to exhaust something: the stack, memory, time or the reader of the report. Each must end, and end
//! with the code that says why. Nothing here is timed; anything quadratic would simply not end.
#![cfg(test)]

mod documents;

use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::violation::MAX_VIOLATIONS;
use crealeph_contracts::{Code, ContractName};
use documents::{VALID, codes, violations};

const NO_LIMIT: Limits = Limits::outside(usize::MAX);

/// The code of the fault that stopped the parse.
fn last_fault(bytes: &[u8], limits: &Limits) -> Code {
    let (document, faults) = parse(bytes, limits);
    assert!(document.is_none(), "it was read");
    faults.last().unwrap().code.clone()
}

/// Every contract's validator refuses it, first of all with this code.
fn refused_by_all(bytes: &[u8], code: &Code) {
    for &contract in ContractName::ALL {
        assert_eq!(codes(contract, bytes).first(), Some(code), "{contract}");
    }
}

#[test]
fn nesting_of_20_000() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let whole = format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
        refused_by_all(whole.as_bytes(), &Code::TooDeep);
        refused_by_all(open.repeat(20_000).as_bytes(), &Code::TooDeep);
    }
}

#[test]
fn nesting_inside_a_valid_document() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let (contract, text) = VALID[0];
    let with = |depth| text.replace("\"deep\": [", &format!("\"deep\": [{}, ", nested(depth)));
    assert_eq!(codes(contract, with(124).as_bytes()), [], "128 in all");
    assert_eq!(codes(contract, with(125).as_bytes()), [Code::TooDeep]);
}

#[test]
fn a_hundred_megabytes_of_brackets() {
    let bytes = vec![b'['; 100 << 20];
    refused_by_all(&bytes, &Code::TooLarge);
    assert_eq!(last_fault(&bytes, &NO_LIMIT), Code::TooDeep);
    let braces = vec![b'{'; 100 << 20];
    assert_eq!(last_fault(&braces, &NO_LIMIT), Code::Syntax);
}

#[test]
fn bytes_that_are_not_utf_8() {
    for bytes in [
        &b"\xff"[..],
        b"{\"a\":\"\xc3\"}",
        b"\"\xed\xa0\x80\"",
        b"\xf4\x90\x80\x80",
        b"\"\xc0\x80\"",
        b"\x80{}",
    ] {
        refused_by_all(bytes, &Code::NotUtf8);
    }
    refused_by_all(b"\xef\xbb\xbf{}", &Code::Bom);
    for bytes in [&b"\0"[..], b"{}\0", b"\0{}", b"{\"a\0\":1}", b"\"\0\"", b"\xfe\xff\0{"] {
        let code = if bytes[0] == 0xfe { Code::NotUtf8 } else { Code::Syntax };
        refused_by_all(bytes, &code);
    }
    refused_by_all(&vec![0; 1 << 20], &Code::Syntax);
    refused_by_all(&vec![b' '; 1 << 20], &Code::Syntax);
}

#[test]
fn a_million_keys() {
    let members: Vec<String> = (0..1_000_000).map(|key| format!("\"{key}\":0")).collect();
    let text = format!("{{{}}}", members.join(","));
    let violations = violations(ContractName::AgentInput, text.as_bytes());
    assert_eq!(violations.len(), MAX_VIOLATIONS + 1);
    assert_eq!(violations[0].code, Code::UnknownKey);
    assert_eq!(violations[MAX_VIOLATIONS].code, Code::TooMany);
    let open = format!("{{\"constraints\":{text}}}");
    assert!(codes(ContractName::AgentInput, open.as_bytes()).iter().all(|code| *code == Code::Missing));
}

#[test]
fn a_hundred_thousand_duplicates() {
    for key in ["\"a\":0", "\"\\u0061\":0", "\"\":{}"] {
        let text = format!("{{{}}}", vec![key; 100_000].join(","));
        let codes = codes(ContractName::WorkItem, text.as_bytes());
        assert!(codes.len() <= MAX_VIOLATIONS + 2, "{}", codes.len());
        assert_eq!((&codes[0], codes.last().unwrap()), (&Code::DuplicateKey, &Code::TooMany));
    }
}

#[test]
fn a_hundred_thousand_violations_of_each_kind() {
    let kinds = [
        (ContractName::AgentOutput, "artifacts", "{}", Code::Missing),
        (ContractName::AgentOutput, "artifacts", "0", Code::WrongType),
        (ContractName::PolicyOutput, "reasons", "{\"x\":0}", Code::UnknownKey),
        (ContractName::PolicyOutput, "allowedActions", "\" \"", Code::Empty),
        (ContractName::Receipt, "artifacts", "{\"change\":\"created\"}", Code::Missing),
        (ContractName::WorkItem, "input_files", "\"..\"", Code::OutsideWorkspace),
        (ContractName::AgentInput, "allowedArtifactTypes", "\"x\"", Code::NotAllowed),
        (ContractName::RunResult, "modified_files", "9007199254740993", Code::InexactInteger),
        (ContractName::RunResult, "modified_files", "\"\\ud800\"", Code::LoneSurrogate),
        (ContractName::RunResult, "modified_files", "1e999", Code::NotFinite),
    ];
    for (contract, key, element, code) in kinds {
        let text = format!("{{\"{key}\":[{}]}}", vec![element; 100_000].join(","));
        let violations = violations(contract, text.as_bytes());
        assert!(violations.len() <= MAX_VIOLATIONS + 2, "{}", violations.len());
        assert_eq!(violations[0].code, code, "{key} {element}");
        assert!(violations[0].pointer.starts_with(&format!("/{key}/0")), "{}", violations[0].pointer);
        assert_eq!(violations.last().unwrap().code, Code::TooMany, "{key} {element}");
    }
}

/// Pointers are computed by walking the document: a thousand of them behind millions of values must not walk a
/// thousand times.
#[test]
fn violations_at_the_end_of_a_large_document() {
    for (good, bad, code) in
        [("\"a\"", "0", Code::WrongType), ("0", "9007199254740993", Code::InexactInteger)]
    {
        let text = format!(
            "{{\"allowedActions\":[{},{}]}}",
            vec![good; 2_000_000].join(","),
            vec![bad; 2_000].join(",")
        );
        let violations = violations(ContractName::PolicyOutput, text.as_bytes());
        let first = violations.iter().find(|violation| violation.code == code).unwrap();
        assert!(first.pointer.starts_with("/allowedActions/"), "{}", first.pointer);
    }
}

/// A report must not grow with the document: neither with long values nor with long keys above many faults.
#[test]
// holds: invariant 3
fn a_report_is_bounded_whatever_it_quotes() {
    let long = "k".repeat(1 << 20);
    let documents = [
        (ContractName::ExecutionEvent, format!("{{\"createdAt\":\"{long}\"}}")),
        (ContractName::ExecutionEvent, format!("{{\"{long}\":0}}")),
        (ContractName::ExecutionEvent, format!("{{\"state\":\"{long}\"}}")),
        (ContractName::ExecutionEvent, format!("{{\"payload\":{{\"attempt\":1{}}}}}", "0".repeat(1 << 20))),
        (ContractName::WorkItem, format!("{{\"input_files\":[\"../{long}\"]}}")),
        (ContractName::PolicyInput, format!("{{\"thresholds\":{{\"{long}\":null}}}}")),
        (
            ContractName::PolicyInput,
            format!("{{\"{long}\":[{}]}}", vec!["9007199254740993"; 2_000].join(",")),
        ),
        (ContractName::PolicyInput, format!("{{\"{long}\":0,\"{long}\":1}}")),
        (ContractName::PolicyInput, format!("{{\"{long}\":[nul]}}")),
        (ContractName::PolicyInput, format!("NaN{long}")),
        (ContractName::PolicyInput, long.clone()),
    ];
    for (contract, text) in documents {
        for violation in violations(contract, text.as_bytes()) {
            let length = violation.pointer.len() + violation.message.len();
            assert!(length < 4_096, "{length} bytes for {}: {:.200}", violation.code, violation.message);
        }
    }
}

#[test]
fn numbers_of_a_megabyte() {
    let digits = "9".repeat(1 << 20);
    let numbers = [
        (digits.clone(), vec![Code::InexactInteger]),
        (format!("-{digits}"), vec![Code::InexactInteger]),
        (format!("1{}", "0".repeat(1 << 20)), vec![Code::InexactInteger]),
        (format!("0.{digits}"), vec![]),
        (format!("1e{digits}"), vec![Code::NotFinite]),
        (format!("1e-{digits}"), vec![]),
        (format!("{}.5e-60000", "9".repeat(60_000)), vec![]),
        (format!("0{digits}"), vec![Code::Syntax]),
        (format!("{digits}."), vec![Code::Syntax]),
    ];
    for (number, expected) in numbers {
        let found: Vec<Code> =
            parse(number.as_bytes(), &NO_LIMIT).1.into_iter().map(|fault| fault.code).collect();
        assert_eq!(found, expected, "{:.20}…", number);
        let text = format!("{{\"thresholds\":{{\"minConfidence\":{number}}}}}");
        assert!(!codes(ContractName::PolicyInput, text.as_bytes()).is_empty());
    }
}

#[test]
fn strings_of_many_megabytes() {
    for piece in ["x", "é", "\\n", "\\u0000", "\\ud83d\\ude00", "\\ud800"] {
        let text = format!("{{\"tenantId\":\"{}\"}}", piece.repeat((8 << 20) / piece.len()));
        assert!(!codes(ContractName::AgentInput, text.as_bytes()).is_empty());
    }
}
