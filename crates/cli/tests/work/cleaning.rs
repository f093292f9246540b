//! `crealeph work clean`: what old runs left goes, their receipts stay, and nothing that is needed is touched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::many::wait_until;
use crate::world::{AGENTS, World, item, item_with, ran};

fn clean(world: &World, flags: &[&str]) -> Value {
    let cleaned = ran(&world.crealeph(&[&["work", "clean"], flags].concat()));
    assert_eq!(cleaned.code, 0, "{}", cleaned.stderr);
    cleaned.lines[0].clone()
}

/// Every file under a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => all.append(&mut files(&entry.path())),
            false => drop(all.insert(entry.path())),
        }
    }
    all
}

/// Three runs, each of which writes over what the one before wrote.
fn three_runs(world: &World) -> Vec<Value> {
    (0..3).map(|n| world.run_one(item(&format!("w{n}"), &format!("echo {n} > a.txt; echo said")))).collect()
}

fn replay(world: &World, line: &Value) -> (i32, String) {
    let replayed = world.crealeph(&["work", "replay", line["receipt_id"].as_str().unwrap()]);
    (replayed.status.code().unwrap(), String::from_utf8_lossy(&replayed.stderr).into_owned())
}

#[test]
fn cleaning_a_workspace_without_runs_creates_nothing() {
    let world = World::new();
    let before = files(&world.at("."));
    for arguments in [&["--dry-run"] as &[&str], &["--keep", "0"]] {
        assert_eq!(clean(&world, arguments)["runs"], 0);
    }
    assert_eq!(files(&world.at(".")), before);
}

#[test]
fn old_runs_lose_everything_but_what_proves_them() {
    let world = World::new();
    let (runs, state) = (three_runs(&world), world.state());
    let contents = |world: &World| files(&world.at(".crealeph/objects")).len();
    let before = contents(&world);
    let printed = clean(&world, &["--keep", "1"]);
    // The contents before the first run and after it are in no state of the last one; those of the second and third are.
    assert_eq!(
        (&printed["runs"], &printed["contents"], &printed["isBusy"]),
        (&json!(2), &json!(2), &json!(false))
    );
    assert!(printed["states"].as_u64().unwrap() > 0 && printed["bytes"].as_u64().unwrap() > 0, "{printed}");
    assert_eq!(contents(&world), before - 2);
    runs.iter().for_each(|line| world.check(line));
    let shown = world.crealeph(&["work", "show", "w0", "--diff"]);
    assert!(shown.stdout.is_empty() && String::from_utf8_lossy(&shown.stderr).contains("no diff"));
    let shown = world.crealeph(&["work", "show", "w0"]);
    assert_eq!(serde_json::from_slice::<Value>(&shown.stdout).unwrap(), runs[0]);
    assert!(!world.crealeph(&["work", "diff", "w2"]).stdout.is_empty());
    assert_eq!(replay(&world, &runs[2]).0, 0);
    let (code, said) = replay(&world, &runs[0]);
    assert!(code != 0 && said.contains("cleaned away"), "{said}");
    assert_eq!(world.state(), state);
    assert_eq!(clean(&world, &["--keep", "1"])["bytes"], 0);
    assert_eq!(world.run_one(item("more", "echo more > a.txt"))["status"], "success");
    runs.iter().for_each(|line| world.check(line));
}

#[test]
fn what_is_young_enough_and_a_dry_run_lose_nothing() {
    let world = World::new();
    three_runs(&world);
    let all =
        |world: &World| ["runs", "states", "objects"].map(|part| files(&world.at(".crealeph").join(part)));
    let before = all(&world);
    assert_eq!(clean(&world, &[])["bytes"], 0);
    assert_eq!(clean(&world, &["--older-than", "1h"])["bytes"], 0);
    let printed = clean(&world, &["--older-than", "0m", "--dry-run"]);
    assert_eq!((&printed["runs"], &printed["isDryRun"]), (&json!(2), &json!(true)));
    assert_eq!(all(&world), before);
    let really = clean(&world, &["--older-than", "0m"]);
    assert_eq!((&really["states"], &really["bytes"]), (&printed["states"], &printed["bytes"]));
    let wrong = world.crealeph(&["work", "clean", "--older-than", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("30d"));
}

#[test]
fn a_held_change_lands_after_everything_around_it_was_cleaned() {
    let world = World::new();
    let held = world
        .run(&[item_with("h", "echo held > held", json!({ "test_command": "test -e held" }))], &["--hold"]);
    let run = held.of("h")["run"].as_str().unwrap().to_owned();
    three_runs(&world);
    assert!(clean(&world, &["--keep", "0"])["contents"].as_u64().unwrap() > 0);
    let approved = ran(&world.crealeph(&["work", "approve", &run, "--reason", "good"]));
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    world.check(&approved.lines[0]);
    assert_eq!((world.read("held"), world.read("a.txt")), ("held\n".to_owned(), "2\n".to_owned()));
    assert_eq!(replay(&world, &approved.lines[0]).0, 0);
}

#[test]
fn cleaning_removes_nothing_of_a_run_in_progress() {
    let world = World::with(&AGENTS.replacen("\"agent-1\"", "\"agent-1\"\nread = [\"../gate\"]", 1));
    world.write("a.txt", "one\n");
    fs::create_dir(world.at("../gate")).unwrap();
    let gate = fs::canonicalize(world.at("../gate")).unwrap();
    three_runs(&world);
    // A file that is written again is seen through a grant; one that appears meanwhile may not be.
    fs::write(gate.join("state"), "closed").unwrap();
    let script = format!("echo x >> a.txt; until grep -q open {}/state; do sleep 0.05; done", gate.display());
    let path = world.items(&[item_with("w", &script, json!({ "test_command": "grep -q x a.txt" }))]);
    let child =
        world.command(&["work", "run", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&world, "w", "running");
    let printed = clean(&world, &["--keep", "0"]);
    assert_eq!(
        (&printed["isBusy"], &printed["states"], &printed["contents"]),
        (&json!(true), &json!(0), &json!(0))
    );
    fs::write(gate.join("state"), "open").unwrap();
    let ran = ran(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, &ran.of("w")["status"]), (0, &json!("success")), "{}", ran.stderr);
    world.check(ran.of("w"));
    assert_eq!(replay(&world, ran.of("w")).0, 0);
    assert_eq!(clean(&world, &["--keep", "0"])["isBusy"], false);
}

#[test]
fn killed_while_cleaning_the_next_time_finishes_it() {
    let world = World::new();
    let mut runs = three_runs(&world);
    for attempt in 0..12_u64 {
        let text = format!("echo {attempt} > a.txt; echo {attempt} > f{attempt}");
        runs.push(world.run_one(item(&format!("k{attempt}"), &text)));
        let mut child = world
            .command(&["work", "clean", "--keep", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros((attempt * 618_034) % 1_000_000 / 20));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(replay(&world, runs.last().unwrap()).0, 0, "attempt {attempt}");
    }
    clean(&world, &["--keep", "1"]);
    runs.iter().for_each(|line| world.check(line));
    assert_eq!(replay(&world, runs.last().unwrap()).0, 0);
    assert_eq!(clean(&world, &["--keep", "1"])["bytes"], 0);
    let temporary = files(&world.at(".crealeph/temporary"));
    assert!(temporary.is_empty(), "{temporary:?}");
}
