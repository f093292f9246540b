//! Runs by their short ids: what is printed is accepted by every command, and what is not unique is refused with its candidates.

use std::fs;

use serde_json::{Value, json};

use crate::world::{World, item, ran};

/// A journal of so many finished runs with ids one after the other, as a workspace that was used for years has.
fn long_journal(world: &World, count: u32) -> Vec<String> {
    let hash = "0".repeat(64);
    let mut journal = String::new();
    let mut ids = Vec::new();
    for number in 0..count {
        let id = format!("0190a6f0-{number:04x}-7000-8000-000000000000");
        journal.push_str(&format!(
            "{{\"event\":\"started\",\"run\":\"{id}\",\"item\":\"item-{number}\",\"batch\":\"{hash}\",\"owner\":\"{id}\",\"at\":\"2026-01-01T00:00:00.000Z\",\"before\":\"{hash}\",\"agent\":\"one\"}}\n\
             {{\"event\":\"finished\",\"run\":\"{id}\",\"item\":\"item-{number}\",\"batch\":\"{hash}\",\"status\":\"success\",\"interrupted\":false,\"receipt\":\"{hash}\",\"before\":\"{hash}\",\"after\":\"{hash}\",\"at\":\"2026-01-01T00:00:01.000Z\"}}\n"
        ));
        ids.push(id);
    }
    fs::write(world.at(".crealeph/runs/journal.jsonl"), journal).unwrap();
    ids
}

fn run_of(line: &Value) -> String {
    line["receipt_id"].as_str().unwrap().to_owned()
}

#[test]
fn every_command_takes_what_the_screen_prints() {
    let world = World::new();
    let first = run_of(&world.run_one(item("first", "echo 1 > one.txt")));
    let second = run_of(&world.run_one(item("second", "echo 2 > two.txt")));
    let mut status = world.command(&["work", "status"]);
    let status = status.env("CREALEPH_OUTPUT", "text").output().unwrap();
    let screen = String::from_utf8(status.stdout).unwrap();
    let short: Vec<&str> = screen.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert!(second.starts_with(short[0]) && first.starts_with(short[1]), "{screen}");
    assert!(short.iter().all(|id| (7..36).contains(&id.len())), "{screen}");
    for (word, run) in
        [(short[0], &second), (short[1], &first), ("@", &second), ("@-", &first), (&first, &first)]
    {
        let shown = ran(&world.crealeph(&["work", "show", word, "--json"]));
        assert_eq!((shown.code, shown.lines[0]["receipt_id"].as_str()), (0, Some(run.as_str())), "{word}");
        let diff = world.crealeph(&["work", "diff", word]);
        let name = if *run == first { "one.txt" } else { "two.txt" };
        assert!(String::from_utf8_lossy(&diff.stdout).contains(name), "{word}");
        let replayed = ran(&world.crealeph(&["work", "replay", word, "--json"]));
        assert_eq!(replayed.lines[0]["run"].as_str(), Some(run.as_str()), "{word}: {}", replayed.stderr);
        let verified = ran(&world.crealeph(&["work", "verify", word, "--json"]));
        assert_eq!(verified.code, 0, "{word}: {}", verified.stderr);
    }
    let held = world.run(&[item("third", "echo 3 > three.txt")], &["--hold"]);
    let held = held.lines[0]["run"].as_str().unwrap().to_owned();
    let decided = ran(&world.crealeph(&["work", "approve", "@", "--reason", "fine"]));
    assert_eq!((decided.code, decided.lines[0]["receipt_id"].as_str()), (0, Some(held.as_str())));
}

#[test]
fn a_start_that_several_runs_have_lists_them() {
    let world = World::new();
    world.run_one(item("first", "echo 1 > one.txt"));
    let ids = long_journal(&world, 20_000);
    let show = |word: &str| {
        let diff = world.crealeph(&["work", "diff", word]);
        (diff.status.code().unwrap(), String::from_utf8(diff.stderr).unwrap())
    };
    let (code, error) = show("0190a6f0-1");
    assert_eq!(code, 2);
    assert!(error.contains("is the start of several ids") && error.contains("more\n"), "{error}");
    assert!(error.contains(&ids[0x1000]) && error.contains("give more of its characters"), "{error}");
    let (code, error) = show("0190a6f0-1234");
    assert!(code != 2 && error.contains("no diff of run 0190a6f0-1234 is kept"), "{code} {error}");
    for word in ["0190a6f1", "0190a6f0-9", "x", "@@", ""] {
        let (code, error) = show(word);
        assert!(code == 1 && error.contains("there is no run"), "{word}: {code} {error}");
    }
}

#[test]
fn an_item_named_like_the_start_of_another_run_is_ambiguous() {
    let world = World::new();
    let first = run_of(&world.run_one(item("first", "echo 1 > one.txt")));
    let start = first.get(..10).unwrap();
    let second = run_of(&world.run_one(item(start, "echo 2 > two.txt")));
    let shown = ran(&world.crealeph(&["work", "show", start, "--json"]));
    assert_eq!(shown.code, 2, "{}", shown.stderr);
    let error: Value = serde_json::from_str(shown.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], json!("ambiguous_id"));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(&first) && message.contains(&second), "{message}");
    let whole = ran(&world.crealeph(&["work", "show", &first, "--json"]));
    assert_eq!(whole.lines[0]["receipt_id"].as_str(), Some(first.as_str()));
}
