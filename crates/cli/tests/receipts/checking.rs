//! `crealeph work verify`: what it reads, what it prints, how it exits. The rules themselves are tested in `crealeph-verify`.

use std::fs;

use crealeph_runtime::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE, SealError};
use crealeph_verify::{MAX_RECEIPT_BYTES, read_receipt};

use crate::world::{World, change_some};

#[test]
fn a_receipt_at_its_bound_is_verified_and_one_past_it_is_not_sealed() {
    let mut world = World::new();
    world.failure();
    let (folder, _) = world.failure_printing("").unwrap();
    let around = fs::read(folder.join(RECEIPT_FILE)).unwrap().len();
    let log = "x".repeat(MAX_RECEIPT_BYTES - around);
    match world.failure_printing(&format!("{log}x")) {
        Err(SealError::TooLarge { what, bytes, most }) => {
            assert_eq!((what, bytes, most), ("receipt", MAX_RECEIPT_BYTES + 1, MAX_RECEIPT_BYTES));
        }
        other => panic!("{other:?}"),
    }
    let (folder, _) = world.failure_printing(&log).unwrap();
    let file = folder.join(RECEIPT_FILE);
    assert_eq!(fs::metadata(&file).unwrap().len(), MAX_RECEIPT_BYTES as u64);
    let (code, said) = world.verify(&[file.to_str().unwrap()]);
    assert_eq!((code, &said["ok"]), (0, &serde_json::json!(true)), "{said}");
    let mut longer = fs::read(&file).unwrap();
    longer.push(b' ');
    assert!(read_receipt(&longer).is_err());
    fs::write(&file, longer).unwrap();
    assert!(world.verify(&[file.to_str().unwrap()]).0 != 0);
}

#[test]
fn a_receipt_without_its_statement_is_not_checked() {
    let mut world = World::new();
    let (folder, _) = world.run(change_some);
    fs::remove_file(folder.join(ENVELOPE_FILE)).unwrap();
    let (code, reply) = world.verify(&[folder.join(RECEIPT_FILE).to_str().unwrap()]);
    assert_eq!((code, &reply["error"]["code"]), (2, &serde_json::json!("not_found")), "{reply}");
    assert!(reply["error"]["hint"].as_str().unwrap().contains("the signed statement next to it"), "{reply}");
}

#[test]
fn what_was_changed_is_named() {
    let mut world = World::new();
    let (folder, sealed) = world.run(change_some);
    let file = folder.join(RECEIPT_FILE);
    let run = folder.to_str().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let id = sealed.receipt.id.to_string();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["ok"].as_bool(), reply["id"].as_str()), (0, Some(true), Some(&*id)), "{reply}");
    for (from, to, field) in [
        ("\"cost_usd\":0.0125", "\"cost_usd\":0.0025", "`cost_usd`"),
        ("models.example", "models.exemple", "`connections`"),
        ("\"full\"", "\"reduced\"", "`sandbox_strength`"),
        ("\"deleted\"", "\"created\"", "`artifacts`"),
        ("\"status\":", "\"statos\":", "`status`, `statos`"),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replace(from, to)).unwrap();
        let (code, reply) = world.verify(&[run]);
        assert_eq!((code, reply["kind"].as_str()), (1, Some("changed")), "{reply}");
        assert!(reply["message"].as_str().unwrap().contains(field), "{reply}");
    }
    fs::write(&file, format!("{text}\n")).unwrap();
    assert!(world.verify(&[run]).1["message"].as_str().unwrap().contains("canonical"));
}

/// A stored state that exists but cannot be read is not treated as one that was never stored.
#[test]
fn a_stored_state_that_cannot_be_read_is_not_taken_as_absent() {
    let mut world = World::new();
    let (folder, sealed) = world.run(change_some);
    let run = folder.to_str().unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["filesCheckedAgainst"].as_str()), (0, Some("states")), "{reply}");
    let states = folder.parent().unwrap().parent().unwrap().join("states");
    let state = states.join(sealed.receipt.after_hash.to_string());
    replace(&state, b"\xff");
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["kind"].as_str()), (1, Some("changed")), "{reply}");
    assert!(reply["message"].as_str().unwrap().contains("is not valid"), "{reply}");
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, &reply["error"]["code"]), (2, &serde_json::json!("unreadable")), "{reply}");
    fs::remove_dir(&state).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["filesCheckedAgainst"].as_str()), (0, Some("unchecked")), "{reply}");
}

#[test]
fn only_a_key_that_is_known_counts() {
    let (mut world, mut other) = (World::new(), World::new());
    let (folder, _) = world.run(change_some);
    let run = folder.to_str().unwrap();
    fs::write(world.at("own.key"), world.signer().verifier_keys().join("\n")).unwrap();
    fs::write(world.at("other.key"), other.signer().verifier_keys().join("\n")).unwrap();
    assert_eq!(world.verify(&[run, "--key", "own.key"]).0, 0);
    let (code, reply) = world.verify(&[run, "--key", "other.key"]);
    assert_eq!((code, reply["kind"].as_str()), (1, Some("forged")), "{reply}");
    // Another workspace's envelope, signed by a key that is known too, does not fit this receipt.
    let (foreign, _) = other.run(|folder| fs::write(folder.join("other"), "other").unwrap());
    fs::copy(foreign.join(ENVELOPE_FILE), folder.join(ENVELOPE_FILE)).unwrap();
    let (code, reply) = world.verify(&[run, "--key", "own.key", "--key", "other.key"]);
    assert_eq!((code, reply["kind"].as_str()), (1, Some("changed")), "{reply}");
}

#[test]
fn after_a_rotation_both_keys_check_and_printing_shows_no_secret() {
    let mut world = World::new();
    let first = world.signer().verifier_keys();
    let (old, _) = world.run(|_| ());
    let rotated = world.crealeph(&["work", "key", "--rotate"]);
    let printed = String::from_utf8(rotated.stdout).unwrap();
    assert_eq!(printed.lines().count(), 2, "{printed}");
    let (new, _) = world.run(change_some);
    fs::write(world.at("first.key"), &first[0]).unwrap();
    fs::write(world.at("second.key"), printed.lines().nth(1).unwrap()).unwrap();
    assert_eq!(world.verify(&[new.to_str().unwrap(), "--key", "first.key"]).0, 0);
    assert_eq!(world.verify(&[new.to_str().unwrap(), "--key", "second.key", "--alone"]).0, 0);
    assert_eq!(world.verify(&[old.to_str().unwrap(), "--key", "second.key", "--alone"]).0, 1);
    for file in fs::read_dir(world.at(".crealeph/ledger.db.keys")).unwrap() {
        let secret = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!printed.contains(secret.lines().nth(1).unwrap()));
    }
}

#[test]
fn the_chain_is_checked_from_the_first_receipt_on() {
    let mut world = World::new();
    let (first, _) = world.run(change_some);
    let (second, _) = world.failure();
    let (third, sealed) = world.run(|folder| fs::write(folder.join("b"), "b").unwrap());
    let run = third.to_str().unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!(
        (code, reply["place"].as_u64(), reply["chainLength"].as_u64()),
        (0, Some(3), Some(3)),
        "{reply}"
    );
    // A gap.
    let aside = world.at("aside");
    fs::rename(&second, &aside).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!(
        (code, reply["kind"].as_str(), reply["place"].as_u64()),
        (1, Some("missing"), Some(2)),
        "{reply}"
    );
    fs::rename(&aside, &second).unwrap();
    // A receipt of the chain that was changed.
    let file = first.join(RECEIPT_FILE);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("Edit", "Exit")).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert!(code == 1 && reply["message"].as_str().unwrap().contains("`tool_trace`"), "{reply}");
    fs::write(&file, text).unwrap();
    // The end that someone remembers.
    let head = sealed.receipt.receipt_hash.to_string();
    fs::rename(&third, &aside).unwrap();
    let (code, reply) = world.verify(&[second.to_str().unwrap(), "--head", &head]);
    assert_eq!((code, reply["kind"].as_str()), (1, Some("truncated")), "{reply}");
    // A fork: another third receipt, as good as the first one in every other way.
    world.rewind(&second);
    let (fork, _) = world.run(|folder| fs::write(folder.join("c"), "c").unwrap());
    fs::rename(&aside, &third).unwrap();
    let (code, reply) = world.verify(&[fork.to_str().unwrap()]);
    assert_eq!(
        (code, reply["kind"].as_str(), reply["place"].as_u64()),
        (1, Some("forked"), Some(3)),
        "{reply}"
    );
}

#[test]
fn a_file_that_is_not_what_the_run_left_is_named() {
    let mut world = World::new();
    let (folder, sealed) = world.run(change_some);
    let run = folder.to_str().unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["filesCheckedAgainst"].as_str()), (0, Some("states")), "{reply}");
    let (code, reply) = world.verify(&[run, "--files", "."]);
    assert_eq!((code, reply["filesCheckedAgainst"].as_str()), (0, Some("files")), "{reply}");
    fs::write(world.at("new/a"), "other").unwrap();
    fs::write(world.at("gone.txt"), "back").unwrap();
    let (code, reply) = world.verify(&[run, "--files", "."]);
    let message = reply["message"].as_str().unwrap();
    assert!(
        code == 1 && message.contains("`new/a` is not what") && message.contains("`gone.txt`"),
        "{reply}"
    );
    assert_eq!(world.verify(&[run]).0, 0, "the stored states are still what they were");
    // A stored content, then a stored state.
    let hash = sealed.receipt.artifacts.as_slice().iter().find_map(|it| it.hash).unwrap().to_string();
    let object = world.at(".crealeph/objects").join(&hash[..2]).join(&hash[2..]);
    let content = fs::read(&object).unwrap();
    replace(&object, b"other");
    let (code, reply) = world.verify(&[run]);
    assert!(code == 1 && reply["message"].as_str().unwrap().contains("`kept.txt`"), "{reply}");
    replace(&object, &content);
    let state = world.at(".crealeph/states").join(sealed.receipt.before_hash.to_string());
    let manifest = fs::read_to_string(&state).unwrap();
    replace(&state, manifest.replace("kept.txt", "kepp.txt").as_bytes());
    let (code, reply) = world.verify(&[run]);
    assert!(code == 1 && reply["message"].as_str().unwrap().contains("of another state"), "{reply}");
}

/// What cannot be read is not called changed: the check ends without a judgement, and says why.
#[test]
fn a_file_next_to_the_receipt_that_cannot_be_read_is_not_called_changed() {
    let mut world = World::new();
    let (folder, _) = world.run(change_some);
    let run = folder.to_str().unwrap();
    let file = folder.join("work-item.json");
    let item = fs::read(&file).unwrap();
    // Not even root can read more than the limit.
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len((256 << 20) + 1).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, &reply["error"]["code"]), (2, &serde_json::json!("too_large")), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("work-item.json"), "{reply}");
    // A missing one, a folder in its place and another content are all found.
    fs::remove_file(&file).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["kind"].as_str()), (1, Some("missing")), "{reply}");
    fs::create_dir(&file).unwrap();
    let (code, reply) = world.verify(&[run]);
    assert_eq!((code, reply["kind"].as_str()), (1, Some("changed")), "{reply}");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "{}").unwrap();
    assert_eq!(world.verify(&[run]).0, 1);
    fs::write(&file, item).unwrap();
    assert_eq!(world.verify(&[run]).0, 0);
}

fn replace(path: &std::path::Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}
