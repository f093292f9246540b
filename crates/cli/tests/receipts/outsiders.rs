//! Checking by implementations that are not ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crealeph_runtime::work::receipt::ENVELOPE_FILE;
use serde_json::Value;

use crate::world::{World, change_some};

/// Where `cargo xtask tools` puts Python packages.
fn packages() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let packages = target.join("tools/python");
    assert!(
        packages.join("in_toto_attestation").is_dir(),
        "`{}` does not hold in-toto-attestation; run `cargo xtask tools`",
        packages.display()
    );
    packages
}

fn in_toto(world: &World, run: &Path, key: &str) -> Output {
    Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receipts/attestation.py"))
        .args([run.join(ENVELOPE_FILE).as_os_str(), key.as_ref(), world.folder.path().as_os_str()])
        .env("PYTHONPATH", packages())
        .output()
        .unwrap()
}

#[test]
fn securesystemslib_and_in_toto_read_the_envelope() {
    let mut world = World::new();
    world.rotate();
    world.rotate();
    let (run, sealed) = world.run(change_some);
    let keys = world.signer().verifier_keys();
    let ran = in_toto(&world, &run, &keys[1]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let key_id = keys[1].splitn(3, '+').take(2).collect::<Vec<_>>().join("+");
    assert_eq!(found["signers"], serde_json::json!([key_id]));
    assert_eq!(found["predicateType"], "urn:crealeph:predicate:work-run:v2");
    assert_eq!(found["subjects"], serde_json::json!(["RECEIPT.json", "kept.txt", "new/a"]));
    let predicate = &found["predicate"];
    assert_eq!(predicate["bounds"]["max_files"], 10.0);
    assert_eq!(predicate["admission"]["admitted"], true);
    assert_eq!(predicate["sandbox"]["strength"], "full");
    assert_eq!(predicate["started_by"]["user"], "ana");
    assert_eq!(predicate["receipt"]["connections"][0]["host"], "models.example:443");
    assert_eq!(predicate["receipt"]["receipt_hash"], sealed.receipt.receipt_hash.to_string());
}

#[test]
fn a_failed_run_has_a_statement_too() {
    let mut world = World::new();
    let (run, _) = world.failure();
    let ran = in_toto(&world, &run, &world.signer().verifier_keys()[0]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["subjects"], serde_json::json!(["RECEIPT.json"]));
    assert_eq!(found["predicate"]["receipt"]["error"], "Tests failed");
}

#[test]
fn they_refuse_what_was_changed_or_signed_by_another() {
    let (mut world, other) = (World::new(), World::new());
    let (run, _) = world.run(change_some);
    let key = world.signer().verifier_keys().remove(0);
    let ran = in_toto(&world, &run, &other.signer().verifier_keys()[0]);
    assert!(!ran.status.success());
    let file = run.join(ENVELOPE_FILE);
    let text = fs::read_to_string(&file).unwrap();
    let at = text.find("payload\":\"").unwrap() + 40;
    let mut changed = text.into_bytes();
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    fs::write(&file, changed).unwrap();
    let ran = in_toto(&world, &run, &key);
    assert!(
        !ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("Verification"),
        "{ran:?}"
    );
}
