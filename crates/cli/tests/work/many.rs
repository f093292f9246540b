//! Many items: levels, conflicts, merges, interrupts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{World, item, item_with, ran};

fn status(line: &Value) -> &str {
    line["status"].as_str().unwrap()
}

#[test]
fn a_level_is_committed_in_the_order_of_ids_and_ends_in_a_receipt_of_the_merge() {
    let world = World::new();
    let before = world.state();
    // The first by id is the slowest.
    let items = [
        item("a", "sleep 2; echo a > a-made"),
        item("b", "echo b > b-made"),
        item_with("c", "echo c > c-made", json!({ "agent_id": "agent-2" })),
        item_with("d", "cat a-made b-made c-made > d-made", json!({ "dependencies": ["a", "b", "c"] })),
    ];
    let ran = world.run(&items, &["--jobs", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let order: Vec<&str> = ran.lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
    assert_eq!(world.read("d-made"), "a\nb\nc\n");
    let receipts: Vec<Value> = ran.lines.iter().map(|line| world.receipt(line)).collect();
    assert_eq!(receipts[0]["before_hash"], before);
    for pair in receipts.windows(2).take(2) {
        assert_eq!(pair[0]["after_hash"], pair[1]["before_hash"], "each lands on the one before");
        assert_eq!(pair[0]["receipt_hash"], pair[1]["previous_receipt_hash"]);
    }
    ran.lines.iter().for_each(|line| world.check(line));
    let merges = merges(&world);
    assert_eq!(merges.len(), 1, "a level of one has nothing to merge");
    assert_eq!(merges[0]["agent_id"], "agent-0");
    assert_eq!(merges[0]["before_hash"], before);
    assert_eq!(merges[0]["after_hash"], receipts[2]["after_hash"]);
    assert_eq!(merges[0]["proof_artifacts"].as_array().unwrap().len(), 3);
    let paths: Vec<&str> =
        merges[0]["artifacts"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a-made", "b-made", "c-made"]);
}

/// The receipts of merges, in the order of the chain.
fn merges(world: &World) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in fs::read_dir(world.at(".crealeph/runs")).unwrap() {
        if let Ok(bytes) = fs::read(entry.unwrap().path().join("RECEIPT.json")) {
            let receipt: Value = serde_json::from_slice(&bytes).unwrap();
            if receipt["phase"] == "reconcile" {
                found.push(receipt);
            }
        }
    }
    found
}

#[test]
fn two_items_of_a_level_that_touch_one_file() {
    let world = World::new();
    let items = [item("a", "echo a >> a.txt; echo a > x"), item("b", "echo b >> a.txt; echo b > y")];
    let ran = world.run(&items, &[]);
    assert_eq!((ran.code, status(ran.of("a")), status(ran.of("b"))), (1, "success", "failure"));
    let error = ran.of("b")["error"].as_str().unwrap();
    assert!(error.contains("Conflict: `a.txt` was changed by item `a`"), "{error}");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\na\n");
    assert!(world.at("x").exists() && !world.at("y").exists());
}

#[test]
fn declared_outputs_that_overlap_are_found_before_anything_runs() {
    let world = World::new();
    let items = [
        item_with("a", "echo a > out", json!({ "output_files": ["out"] })),
        item_with("b", "echo b > out", json!({ "output_files": ["./sub/../out"] })),
    ];
    let ran = world.run(&items, &[]);
    assert_eq!((ran.code, ran.lines.len()), (1, 0));
    assert!(ran.stderr.contains("`a`") && ran.stderr.contains("`out`"), "{}", ran.stderr);
    assert!(!world.at("out").exists());
    // One after the other they may.
    let after = item_with("b", "echo b > out", json!({ "output_files": ["out"], "dependencies": ["a"] }));
    assert_eq!(world.run(&[items[0].clone(), after], &[]).code, 0);
}

#[test]
fn a_dependent_of_a_failed_item_is_not_run_and_says_which() {
    let world = World::new();
    let items = [
        item("a", "exit 1"),
        item("b", "echo b > b-made"),
        item_with("c", "echo c > c-made", json!({ "dependencies": ["a", "b"] })),
        item_with("d", "echo d > d-made", json!({ "dependencies": ["c"] })),
    ];
    let ran = world.run(&items, &[]);
    assert_eq!(ran.code, 1);
    assert_eq!((status(ran.of("a")), status(ran.of("b"))), ("failure", "success"));
    assert_eq!((status(ran.of("c")), &ran.of("c")["waits_for"]), ("not_run", &json!(["a"])));
    assert_eq!((status(ran.of("d")), &ran.of("d")["waits_for"]), ("not_run", &json!(["c"])));
    assert!(world.at("b-made").exists() && !world.at("c-made").exists());
}

#[test]
fn a_cycle_and_an_unknown_dependency() {
    let world = World::new();
    let before = world.state();
    let items = [
        item_with("a", "echo a > a-made", json!({ "dependencies": ["b"] })),
        item_with("b", "echo b > b-made", json!({ "dependencies": ["a"] })),
        item("c", "echo c > c-made"),
    ];
    let ran = world.run(&items, &[]);
    assert_eq!((ran.code, ran.lines.len()), (1, 0));
    assert!(ran.stderr.contains("`a` → `b` → `a`"), "{}", ran.stderr);
    assert_eq!(world.state(), before);
    let items = [
        item("c", "echo c > c-made"),
        item_with("d", "echo d > d-made", json!({ "dependencies": ["nobody"] })),
        item_with("e", "echo e > e-made", json!({ "dependencies": ["d"] })),
    ];
    let ran = world.run(&items, &[]);
    assert_eq!(ran.code, 1);
    assert_eq!(status(ran.of("c")), "success");
    assert_eq!((status(ran.of("d")), &ran.of("d")["waits_for"]), ("blocked", &json!(["nobody"])));
    assert_eq!((status(ran.of("e")), &ran.of("e")["waits_for"]), ("blocked", &json!(["d"])));
}

#[test]
fn an_item_that_is_red_only_after_the_merge() {
    let world = World::new();
    // Each is green alone; together they are red.
    let test = json!({ "test_command": "test ! -e left -o ! -e right" });
    let items = [item_with("a", "echo l > left", test.clone()), item_with("b", "echo r > right", test)];
    let ran = world.run(&items, &[]);
    assert_eq!((status(ran.of("a")), status(ran.of("b"))), ("success", "failure"));
    let error = ran.of("b")["error"].as_str().unwrap();
    assert!(error.contains("Tests failed") && error.contains("merged state"), "{error}");
    assert!(world.at("left").exists() && !world.at("right").exists());
}

#[test]
fn an_interrupted_batch_resumes() {
    let world = World::new();
    // The second level waits until a file outside its view lets it continue: its own workspace never has it at first.
    let items = [
        item("a", "echo a > a-made; echo run >> a-runs"),
        item_with("b", "test -e go || sleep 600; echo b > b-made", json!({ "dependencies": ["a"] })),
        item_with("c", "echo c > c-made", json!({ "dependencies": ["b"] })),
    ];
    let path = world.items(&items);
    let mut child =
        world.command(&["work", "run", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&first["id"], status(&first)), (&json!("a"), "success"));
    wait_until(&world, "b", "running");
    signal(child.id(), "INT");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains("interrupted"), "{rest:?}");
    assert!(!world.at("b-made").exists());
    world.write("go", "");
    let again = ran(&world.crealeph(&["work", "run", &path]));
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(again.of("a")["receipt_id"], first["receipt_id"], "what was done is not done again");
    assert_eq!((status(again.of("b")), status(again.of("c"))), ("success", "success"));
    assert_eq!(world.read("a-runs"), "run\n");
    // A finished batch starts from the beginning.
    let third = ran(&world.crealeph(&["work", "run", &path]));
    assert_ne!(third.of("a")["receipt_id"], first["receipt_id"]);
}

/// Waits until the newest run of an item is in a state.
pub(crate) fn wait_until(world: &World, item: &str, state: &str) {
    for _ in 0..1200 {
        let status = world.crealeph(&["work", "status"]);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        let is_there = text.lines().any(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["id"] == item && line["status"] == state
        });
        if is_there {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{item} never was {state}");
}

pub(crate) fn signal(process: u32, name: &str) {
    let sent = std::process::Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status();
    assert!(sent.unwrap().success());
}
