//! Undoing a run: a separate run, that restores what was there, or says what is in the way (R34).

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::many::signal;
use crate::world::{Ran, World, item, item_with, ran};

pub(crate) fn undo(world: &World, run: &Value, flags: &[&str]) -> Ran {
    ran(&world.crealeph(&[&["work", "undo", run["receipt_id"].as_str().unwrap()], flags].concat()))
}

fn refused(world: &World, run: &Value, flags: &[&str]) -> String {
    let before = world.read(".crealeph/runs/journal.jsonl");
    let undone = undo(world, run, flags);
    assert_eq!((undone.code, undone.lines.len()), (1, 0), "{} {:?}", undone.stderr, undone.lines);
    assert_eq!(world.read(".crealeph/runs/journal.jsonl"), before, "nothing was run");
    undone.stderr
}

fn done(world: &World, undone: &Ran) -> Value {
    assert_eq!(undone.code, 0, "{} {:?}", undone.stderr, undone.lines);
    world.check(&undone.lines[0]);
    undone.lines[0].clone()
}

const CHANGE: &str = "echo x >> a.txt; chmod +x a.txt; echo n > n; ln -s a.txt l; rm src/b.txt; mkdir src/b.txt; echo i > src/b.txt/inside";

#[test]
fn a_run_is_undone_and_the_undo_too() {
    let world = World::new();
    let before = world.state();
    let landed = world.run_one(item_with("w", CHANGE, json!({ "test_command": "test -s a.txt" })));
    let after = world.state();
    assert_eq!(landed["status"], "success");
    let undone = done(&world, &undo(&world, &landed, &[]));
    assert_eq!((world.state(), &undone["output_hash"]), (before.clone(), &json!(before)));
    let receipt = world.receipt(&undone);
    assert_eq!(receipt["agent_id"], "agent-0");
    assert!(receipt["work_item_id"].as_str().unwrap().starts_with("undo-"));
    assert_eq!(
        receipt["earlier_run"],
        json!({ "relation": "undoes", "run": landed["receipt_id"], "hash": world.receipt(&landed)["receipt_hash"] })
    );
    assert!(refused(&world, &landed, &[]).contains("already"));
    let listed = String::from_utf8(world.crealeph(&["-t", "work", "status"]).stdout).unwrap();
    let newest = listed.lines().next().unwrap();
    assert!(newest.contains("Undo \"echo x") && !newest.contains("undo-"), "{listed}");
    done(&world, &undo(&world, &undone, &[]));
    assert_eq!(world.state(), after);
    done(&world, &undo(&world, &landed, &[]));
    assert_eq!(world.state(), before);
}

/// Ctrl-C while the change is still being applied to a view, before any test runs.
#[test]
fn an_undo_that_is_interrupted_early_has_not_failed() {
    let world = World::new();
    let bounds = json!({ "constraints": { "max_files": 1500, "max_delta_size": 1500 } });
    let landed =
        world.run_one(item_with("w", "i=0; while [ $i -lt 1200 ]; do : > f$i; i=$((i+1)); done", bounds));
    assert_eq!(landed["status"], "success", "{landed}");
    let after = world.state();
    let mut child = world.command(&["work", "undo", landed["receipt_id"].as_str().unwrap()]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = || ran(&world.crealeph(&["work", "status", "--status", "running"])).lines;
    let run = (0..1_200).find_map(|_| Some(running().first()?["run"].clone())).unwrap();
    signal(child.id(), "INT");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    let interrupted = ran(&world.crealeph(&["work", "status", "--status", "interrupted"]));
    assert_eq!(interrupted.lines[0]["run"], run, "{:?}", interrupted.lines);
    assert_eq!(world.state(), after);
}

#[test]
fn what_later_changes_touched_is_not_undone_and_they_are_named() {
    let world = World::new();
    let first = world.run_one(item("first", "echo 1 >> a.txt; echo 1 > one"));
    let second = world.run_one(item("second", "echo 2 >> a.txt"));
    world.write("src/b.txt", "edited\n");
    let said = refused(&world, &first, &[]);
    let name = world.short(&second["receipt_id"]);
    assert!(said.contains(&format!("`a.txt` was changed by run `{name}`")), "{said}");
    assert!(!said.contains("`one`") && !said.contains("src/b.txt"), "{said}");
    let receipt = format!(".crealeph/runs/{}/RECEIPT.json", second["receipt_id"].as_str().unwrap());
    fs::rename(world.at(&receipt), world.outside().join("away")).unwrap();
    let said = refused(&world, &first, &[]);
    assert!(said.contains("by hand or by a run (receipts since then that were not read: 1)"), "{said}");
    assert!(said.contains("undo the runs that changed them"), "{said}");
    fs::rename(world.outside().join("away"), world.at(&receipt)).unwrap();
    done(&world, &undo(&world, &second, &[]));
    world.write("one", "by hand\n");
    let said = refused(&world, &first, &[]);
    assert!(said.contains("`one` was changed by hand"), "{said}");
    world.write("one", "1\n");
    done(&world, &undo(&world, &first, &[]));
    assert_eq!(
        (world.read("a.txt").as_str(), world.read("src/b.txt").as_str()),
        ("one\ntwo\nthree\n", "edited\n")
    );
    assert!(!world.at("one").exists());
}

#[test]
fn an_undo_is_tested_judged_and_can_be_held() {
    let world = World::new();
    let landed =
        world.run_one(item_with("w", "echo n > n; echo m > m", json!({ "test_command": "test -e n" })));
    let failed = undo(&world, &landed, &[]);
    assert_eq!((failed.code, &failed.lines[0]["status"]), (1, &json!("failure")), "{}", failed.stderr);
    assert!(world.at("n").exists());
    let denied = undo(&world, &landed, &["--test", "", "--max-files", "1"]);
    assert_eq!(denied.lines[0]["denial_reason"], "Exceeded max files: 2 > 1");
    let held = undo(&world, &landed, &["--test", "test ! -e n", "--hold"]);
    assert_eq!((held.code, world.at("n").exists()), (3, true), "{}", held.stderr);
    let run = held.lines[0]["run"].as_str().unwrap();
    let approved = ran(&world.crealeph(&["work", "approve", run, "--reason", "good"]));
    done(&world, &approved);
    assert!(!world.at("n").exists() && !world.at("m").exists());
}

#[test]
fn only_what_landed_is_undone() {
    let world = World::new();
    let failed = world.run_one(item("f", "exit 1"));
    assert!(refused(&world, &failed, &[]).contains("did not succeed"));
    let nothing = world.run_one(item("n", "true"));
    assert!(refused(&world, &nothing, &[]).contains("changed nothing"));
    let held = world.run(&[item("h", "echo h > h")], &["--hold"]);
    let named = json!({ "receipt_id": held.of("h")["run"] });
    assert!(refused(&world, &named, &[]).contains("reject it"));
    let run = held.of("h")["run"].as_str().unwrap();
    assert!(world.crealeph(&["work", "reject", run, "--reason", "no"]).status.success());
    let old = world.run_one(item("old", "echo o > o"));
    world.run_one(item("new", "echo n > new"));
    world.run_one(item("newest", "echo n > newest"));
    assert!(world.crealeph(&["work", "clean", "--keep", "1"]).status.success());
    assert!(refused(&world, &old, &[]).contains("work clean"));
    let level = world.run(&[item("a", "echo a > la"), item("b", "echo b > lb")], &[]);
    assert_eq!(level.code, 0, "{}", level.stderr);
    let status = String::from_utf8(world.crealeph(&["work", "status"]).stdout).unwrap();
    let merge = status.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let merge = merge.rev().find(|line| line["id"].is_null()).unwrap();
    assert!(refused(&world, &json!({ "receipt_id": merge["run"] }), &[]).contains("merge of a level"));
    done(&world, &undo(&world, level.of("a"), &[]));
    assert!(!world.at("la").exists() && world.at("lb").exists());
}

#[test]
fn on_a_branch_the_undo_is_a_commit() {
    let world = World::new();
    world.init_git();
    let to_branch = ["--publish", "branch:agents/x"];
    let first = world.run(&[item("first", "echo 1 >> a.txt; rm src/b.txt")], &to_branch);
    let second = world.run(&[item("second", "echo 2 > two")], &to_branch);
    assert_eq!((first.code, second.code), (0, 0), "{} {}", first.stderr, second.stderr);
    let undone = done(&world, &undo(&world, first.of("first"), &[]));
    let subjects = world.git(&["log", "--format=%s", "main..agents/x"]);
    assert!(subjects.starts_with("Undo \"echo 1 >> a.txt; rm src/b.txt\"\n"), "{subjects}");
    assert_eq!(subjects.lines().count(), 3);
    assert_eq!(world.git(&["diff", "--name-only", "main", "agents/x"]), "two\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    done(&world, &undo(&world, &undone, &[]));
    assert_eq!(world.git(&["show", "agents/x:a.txt"]), "one\ntwo\nthree\n1\n");
    // A later commit of a run, and one of a person.
    let third = world.run(&[item("third", "echo 3 > two3; echo 3 > two")], &to_branch);
    assert_eq!(third.of("third")["status"], "failure", "the workspace has no `two`, and the branch has");
    world.git(&["switch", "-q", "agents/x"]);
    world.write("a.txt", "by hand\n");
    world.git(&["commit", "-qam", "by hand"]);
    world.git(&["switch", "-q", "main"]);
    let said = refused(&world, first.of("first"), &[]);
    assert!(
        said.contains("`a.txt` was changed by hand") || said.contains("`a.txt` was changed by run"),
        "{said}"
    );
    done(&world, &undo(&world, second.of("second"), &[]));
    assert_eq!(world.git(&["show", "agents/x:a.txt"]), "by hand\n");
}
