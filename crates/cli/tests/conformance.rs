//! The conformance cases under `cases/`, judged by the program itself through `validate --batch`.

#![cfg(test)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_case_is_judged_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut failures = Vec::new();
    let mut count = 0;
    for file in files {
        let cases = fs::read_to_string(&file).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_crealeph"))
            .args(["validate", "--batch"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        let verdicts = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            cases.lines().count(),
            verdicts.lines().count(),
            "one verdict a line for {}",
            file.display()
        );
        for (case, verdict) in cases.lines().zip(verdicts.lines()) {
            count += 1;
            let (case, verdict) =
                (serde_json::from_str(case).unwrap(), serde_json::from_str(verdict).unwrap());
            if let Err(what) = check(&case, &verdict) {
                failures.push(format!("{}: {what}: {verdict}", case["id"]));
            }
        }
    }
    assert!(count >= 200, "the cases were read: {count}");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

fn check(case: &Value, verdict: &Value) -> Result<(), &'static str> {
    if verdict["valid"] != (case["expect"] == "valid") {
        return Err("wrong verdict");
    }
    let violations = verdict["violations"].as_array().unwrap();
    if (verdict["valid"] == true) != violations.is_empty() {
        return Err("violations against the verdict");
    }
    if !case["code"].is_null() && !violations.iter().any(|violation| violation["code"] == case["code"]) {
        return Err("the code is not reported");
    }
    if verdict["outcome"] != case["outcome"] {
        return Err("wrong outcome");
    }
    let levels = &case["context"]["levels"];
    if !levels.is_null() && *levels != verdict["levels"] {
        return Err("wrong levels");
    }
    let is_complete = violations.iter().all(|violation| {
        ["pointer", "clause", "code", "message"].iter().all(|key| violation[*key].is_string())
            && violation["message"].as_str().is_some_and(|message| !message.is_empty())
    });
    if is_complete { Ok(()) } else { Err("a violation lacks a part") }
}
