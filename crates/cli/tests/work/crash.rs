//! SIGKILL at any moment, and people who save files meanwhile: exactly before or exactly after, and no edit is lost.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::many::{signal, wait_until};
use crate::world::{World, item, item_with, ran};

/// How many moments are tried; `CREALEPH_KILLS` asks for more.
pub(crate) fn kills() -> u64 {
    std::env::var("CREALEPH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

#[test]
// holds: invariant 13
fn killed_at_any_moment_the_state_is_before_or_after() {
    let world = World::new();
    let change = "i=0; while [ $i -lt 30 ]; do echo $RANDOM$i$(date +%N) > f$i; i=$((i+1)); done; rm -f gone; echo x > gone2; echo y >> a.txt";
    let constraints = json!({ "constraints": { "max_files": 100 }, "test_command": "test -s f29" });
    // How long a run takes here, so that the moments are spread over all of it.
    let start = std::time::Instant::now();
    assert_eq!(world.run_one(item_with("first", change, constraints.clone()))["status"], "success");
    let whole_us = u64::try_from(start.elapsed().as_micros()).unwrap();
    let mut landed = 0;
    for attempt in 0..kills() {
        let before = world.state();
        let prepared = count_prepared(&world);
        let path = world.items(&[item_with(&format!("w{attempt}"), change, constraints.clone())]);
        let mut child = world
            .command(&["work", "run", &path])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Spread without repeating: the fractional parts of multiples of the golden ratio.
        let share = (attempt * 618_034) % 1_000_000;
        match attempt % 2 {
            // Anywhere between the start and the end.
            0 => std::thread::sleep(Duration::from_micros(whole_us * share * 3 / 2_000_000)),
            // In the short time in which the change lands.
            _ => {
                wait_until_prepared(&world, &mut child, prepared);
                std::thread::sleep(Duration::from_micros(share * 120_000 / 1_000_000));
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let recovered = world.crealeph(&["work", "recover"]);
        assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
        let after = world.state();
        let newest = newest_success(&world);
        if after == before {
            assert_eq!(newest["output_hash"], before, "a receipt of success for what is not there");
        } else {
            landed += 1;
            assert_eq!(newest["output_hash"], after, "a state between, or a change without its receipt");
            world.check(&newest);
        }
        let again = world.crealeph(&["work", "recover"]);
        let printed: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(
            (&printed["completed"], &printed["interrupted"]),
            (&json!([]), &json!([])),
            "settled once"
        );
    }
    println!("{landed} of {} had landed", kills());
    let leftovers: Vec<_> = fs::read_dir(world.at(".crealeph/runs/owners")).unwrap().collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

/// How often a change was about to land.
fn count_prepared(world: &World) -> usize {
    world.read(".crealeph/runs/journal.jsonl").matches("{\"event\":\"prepared\"").count()
}

/// Waits until a change is about to land, or the process has ended.
fn wait_until_prepared(world: &World, child: &mut std::process::Child, before: usize) {
    while count_prepared(world) == before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The result of the newest successful run.
fn newest_success(world: &World) -> Value {
    let status = world.crealeph(&["work", "status", "--limit", "100000"]);
    let text = String::from_utf8(status.stdout).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let newest = lines.find(|line| line["status"] == "success").unwrap();
    let shown = world.crealeph(&["work", "show", newest["run"].as_str().unwrap()]);
    serde_json::from_slice(&shown.stdout).unwrap()
}

#[test]
// holds: invariant 13
fn a_run_whose_process_was_killed_has_a_receipt() {
    let world = World::new();
    let path = world.items(&[item("w", "echo x > x; sleep 600")]);
    let mut child =
        world.command(&["work", "run", &path]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(&world, "w", "running");
    signal(child.id(), "KILL");
    child.wait().unwrap();
    wait_until(&world, "w", "unsettled");
    let recovered = world.crealeph(&["work", "recover"]);
    let printed: Value = serde_json::from_slice(&recovered.stdout).unwrap();
    let run = printed["interrupted"][0].as_str().unwrap().to_owned();
    let receipt: Value = serde_json::from_slice(
        &fs::read(world.at(".crealeph/runs").join(&run).join("RECEIPT.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(receipt["status"], "failed");
    assert!(receipt["error"].as_str().unwrap().contains("interrupted"));
    let verified = world.crealeph(&["work", "verify", &format!(".crealeph/runs/{run}")]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let statement: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(statement["agent"]["name"], "one");
    assert!(statement["startedBy"]["user"].is_string(), "{statement}");
    let listed =
        String::from_utf8(world.crealeph(&["ledger", "list", "--type", "run_receipt"]).stdout).unwrap();
    assert!(listed.contains(&run));
}

#[test]
fn a_receipt_is_not_signed_without_the_origin_that_is_damaged() {
    let world = World::new();
    let path = world.items(&[item("w", "echo x > x; sleep 600")]);
    let mut child =
        world.command(&["work", "run", &path]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(&world, "w", "running");
    signal(child.id(), "KILL");
    child.wait().unwrap();
    wait_until(&world, "w", "unsettled");
    let runs = fs::read_dir(world.at(".crealeph/runs")).unwrap().map(|entry| entry.unwrap().path());
    let folder = runs.into_iter().find(|path| path.join("origin.json").exists()).unwrap();
    let origin = fs::read(folder.join("origin.json")).unwrap();
    fs::write(folder.join("origin.json"), "{\"agent\":").unwrap();
    let refused = world.crealeph(&["work", "recover"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("origin.json` cannot be read back"), "{said}");
    assert!(!folder.join("RECEIPT.json").exists());
    fs::write(folder.join("origin.json"), origin).unwrap();
    assert!(world.crealeph(&["work", "recover"]).status.success());
    let verified = world.crealeph(&["work", "verify", folder.to_str().unwrap()]);
    let statement: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(statement["agent"]["name"], "one");
}

#[test]
fn a_person_who_saves_another_file_meanwhile_keeps_it() {
    let world = World::new();
    let path = world.items(&[item("w", "sleep 3; echo x >> a.txt")]);
    let child =
        world.command(&["work", "run", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&world, "w", "running");
    world.write("src/b.txt", "saved by a person\n");
    world.write("new by a person", "p\n");
    let ran = ran(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, &ran.of("w")["status"]), (0, &json!("success")), "{}", ran.stderr);
    assert_eq!(world.read("src/b.txt"), "saved by a person\n");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\nx\n");
    assert_eq!(ran.of("w")["output_hash"], world.state());
}

#[test]
fn a_person_who_saves_the_same_file_meanwhile_wins() {
    let world = World::new();
    let path = world.items(&[item("w", "echo x >> a.txt; echo y > y; sleep 3")]);
    let child =
        world.command(&["work", "run", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&world, "w", "running");
    std::thread::sleep(Duration::from_millis(500));
    world.write("a.txt", "saved by a person\n");
    let ran = ran(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, &ran.of("w")["status"]), (1, &json!("failure")), "{}", ran.stderr);
    assert!(ran.of("w")["error"].as_str().unwrap().contains("a.txt"), "{}", ran.of("w"));
    assert_eq!(world.read("a.txt"), "saved by a person\n");
    assert!(!world.at("y").exists());
}

#[test]
// holds: invariant 12
fn a_person_who_saves_all_the_time_loses_nothing() {
    let world = World::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let saved = std::thread::scope(|scope| {
        let saving = scope.spawn(|| {
            let mut count = 0u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                count += 1;
                // As editors do: a new file over the old one.
                fs::write(world.at(".a.txt.new"), format!("save {count}\n")).unwrap();
                fs::rename(world.at(".a.txt.new"), world.at("a.txt")).unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            count
        });
        for attempt in 0..3 {
            world.run(&[item(&format!("w{attempt}"), "echo x > a.txt; echo y > y")], &[]);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        saving.join().unwrap()
    });
    // The last save is there, or was kept next to it by the publish that met it.
    let last = format!("save {saved}\n");
    let kept = std::process::Command::new("grep")
        .args(["-rqx", last.trim()])
        .arg(world.at(".crealeph/kept"))
        .status();
    assert!(world.read("a.txt") == last || kept.unwrap().success(), "{}", world.read("a.txt"));
}

/// Starts a command, kills it at one of several moments, and settles what it left.
fn killed(world: &World, arguments: &[&str], attempt: u64) {
    let prepared = count_prepared(world);
    let mut child = world.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let share = (attempt * 618_034) % 1_000_000;
    match attempt % 2 {
        0 => std::thread::sleep(Duration::from_micros(share)),
        _ => {
            wait_until_prepared(world, &mut child, prepared);
            std::thread::sleep(Duration::from_micros(share * 60_000 / 1_000_000));
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let recovered = world.crealeph(&["work", "recover"]);
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
}

/// The newest runs of an item, newest first.
fn runs_of(world: &World, item: &str) -> Vec<Value> {
    let status = String::from_utf8(world.crealeph(&["work", "status", "--limit", "100000"]).stdout).unwrap();
    let lines = status.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["id"] == item).collect()
}

#[test]
// holds: invariant 13
fn killed_while_it_is_approved_a_change_has_landed_or_is_held() {
    let world = World::new();
    for attempt in 0..kills() / 2 {
        let id = format!("w{attempt}");
        let script = format!("i=0; while [ $i -lt 20 ]; do echo {attempt} > f$i; i=$((i+1)); done");
        let large = json!({ "constraints": { "max_files": 100 } });
        let held = world.run(&[item_with(&id, &script, large)], &["--hold"]);
        let run = held.of(&id)["run"].as_str().unwrap().to_owned();
        let before = world.state();
        let approve = ["work", "approve", &run, "--reason", "good"];
        killed(&world, &approve, attempt);
        if world.state() == before {
            assert_eq!(runs_of(&world, &id)[0]["status"], "held");
            let approved = ran(&world.crealeph(&approve));
            assert_eq!(approved.code, 0, "{} {:?}", approved.stderr, approved.lines);
        }
        assert_eq!(runs_of(&world, &id)[0]["status"], "success");
        assert_eq!(world.read("f19"), format!("{attempt}\n"));
        world.check(&newest_success(&world));
        assert!(world.crealeph(&["work", "recover"]).status.success());
        assert!(fs::read_dir(world.at(".crealeph/publish")).unwrap().next().is_none(), "nothing is held");
    }
}

#[test]
// holds: invariant 13
fn killed_while_it_is_retried_a_change_has_landed_or_can_be_retried() {
    let world = World::new();
    for attempt in 0..kills() / 2 {
        let id = format!("w{attempt}");
        let script = format!("i=0; while [ $i -lt 20 ]; do echo {attempt} > f$i; i=$((i+1)); done");
        let denied = world.run_one(item_with(&id, &script, json!({ "constraints": { "max_files": 1 } })));
        let before = world.state();
        let retry = ["work", "retry", denied["receipt_id"].as_str().unwrap(), "--max-files", "20"];
        killed(&world, &retry, attempt);
        if world.state() == before {
            let retried = ran(&world.crealeph(&retry));
            assert_eq!(retried.code, 0, "{} {:?}", retried.stderr, retried.lines);
        }
        assert_eq!(world.read("f19"), format!("{attempt}\n"));
        world.check(&newest_success(&world));
        world.check(&denied);
    }
}
