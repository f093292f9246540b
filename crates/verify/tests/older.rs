//! A log of an earlier version that accepted entries that it could not read back: a payload 127 deep, records of requests up to 126
//! deep, and one of a request 127 deep that was stored without its payload. Earlier verifiers failed at the first.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crealeph_verify::{ExportVerifier, Finding};

#[path = "second/mod.rs"]
mod second;

const OLDER: &str = include_str!("../../ledger/tests/older/too-deep.jsonl");

fn verified(export: &str) -> Result<u64, Finding> {
    let mut verifier = ExportVerifier::new(Vec::new(), &[])?;
    export.lines().try_for_each(|line| verifier.line(line))?;
    Ok(verifier.finish()?.entries)
}

#[test]
fn entries_that_an_earlier_program_could_not_read_are_verified() {
    assert!(OLDER.contains("\"payload\":,"), "one lost its payload");
    assert_eq!(verified(OLDER), Ok(22));
}

#[test]
fn a_lost_payload_hides_no_change() {
    let changed = [
        OLDER.replace("\"payload\":,", "\"payload\":{},"),
        OLDER.replace("\"payload\":,\"robotId\":\"robot-1\"", "\"payload\":,\"robotId\":\"robot-2\""),
        OLDER.replace("\"payload\":,\"robotId\"", "\"payload\":,\"payload\":,\"robotId\""),
    ];
    for changed in &changed {
        let finding = verified(changed).unwrap_err();
        assert_eq!((finding.kind.as_str(), finding.seq), ("changed", Some(22)), "{finding}");
    }
    let question = |export: &str| {
        let lines: Vec<&str> = export.lines().collect();
        serde_json::json!({ "ask": "export", "lines": lines, "keys": [], "kept": [], "lenient": false })
    };
    let questions: Vec<_> =
        [OLDER.to_owned()].iter().chain(&changed).map(|export| question(export)).collect();
    let answers = second::answers(&questions);
    let mut answers = answers.iter().map(|answer| answer.as_str().unwrap());
    assert!(answers.next().unwrap().starts_with("ok, 22 entries"));
    answers.for_each(|answer| assert!(answer.starts_with("changed at 22: "), "{answer}"));
}
