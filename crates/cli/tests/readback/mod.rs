//! Reads a ledger back through every command that reads one: get, verify, export, verify of the export, import, prove and
//! verify-proof.
#![allow(unreachable_pub, reason = "each test file uses its part")]

use std::path::Path;
use std::process::Command;

/// Runs every reading command, and proves the entries with these ids. Files go to `folder`, which has none of theirs yet.
pub fn read_back(command: &dyn Fn(&[&str]) -> Command, folder: &Path, ids: &[String]) {
    let good = |arguments: &[&str]| {
        let output = command(&[&["ledger"], arguments].concat()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (key, export, proof) = (file("saved.key"), file("export.jsonl"), file("proof.json"));
    good(&["verify"]);
    good(&["checkpoint"]);
    std::fs::write(&key, good(&["key"])).unwrap();
    good(&["export", &export]);
    good(&["verify", &export, "--key", &key]);
    let (other, keys) = (file("other.db"), file("other.keys"));
    let elsewhere = ["--ledger", &other, "--keys", &keys];
    good(&[&["init"], &elsewhere[..]].concat());
    good(&[&["import", &export], &elsewhere[..]].concat());
    good(&[&["verify"], &elsewhere[..]].concat());
    let again = file("again.jsonl");
    good(&[&["export", &again], &elsewhere[..]].concat());
    assert!(std::fs::read(&export).unwrap() == std::fs::read(&again).unwrap(), "an import changed the log");
    for id in ids {
        assert!(!good(&["get", id]).is_empty());
        std::fs::write(&proof, good(&["prove", id])).unwrap();
        good(&["verify-proof", &proof, "--key", &key]);
    }
}

/// An object that nests this deep, in canonical form.
pub fn nested(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}
