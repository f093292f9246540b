//! From a Builder's plan to work that is done, with the policy between and lineage all the way.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{AGENTS, World, item, item_with, ran};

const PLANNER: &str = r#"
[agents."planner@1"]
kind = "process"
command = ["python3", "planner.py"]
"#;

/// Plans two tasks, the second based on the first.
const PLANNER_SCRIPT: &str = r#"
import json, sys
given = json.load(sys.stdin)
lineage = given["allowedLineage"]["dependsOnLedgerIds"][:1]
def task(payload):
    return {"type": "task", "payload": payload, "dependsOnLedgerIds": lineage,
            "metadata": {"generatedAt": given["snapshotAt"]}}
print(json.dumps({"ok": True, "executionId": given["executionId"], "status": "succeeded", "artifacts": [
    task({"id": "write", "description": "echo planned > planned.txt", "output_files": ["planned.txt"]}),
    task({"id": "count", "description": "wc -l < planned.txt > count.txt", "dependencies": ["write"]}),
]}))
"#;

fn fed(world: &World, arguments: &[&str], stdin: &str) -> std::process::Output {
    let mut child = world
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn append(world: &World, lines: &[String]) {
    let output = fed(world, &["ledger", "append"], &lines.join("\n"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn entry(kind: &str, key: &str, on: &[&str]) -> String {
    let on: Vec<String> = on.iter().map(|key| format!("key:{key}")).collect();
    json!({ "robotId": "r", "module": "m", "source": "s", "type": kind, "state": "final", "payload": { "text": "x" },
            "key": key, "lineage": { "dependsOnLedgerIds": on } })
    .to_string()
}

/// A workspace with a ledger that is coherent for robot `r`, and a planner.
fn planned() -> World {
    let world = World::with(&format!("{AGENTS}{PLANNER}"));
    world.write("planner.py", PLANNER_SCRIPT);
    world.run_one(item("first", "echo start > start.txt"));
    append(&world, &[entry("signal", "s1", &[]), entry("fusion", "f1", &["s1"])]);
    let rest: Vec<String> =
        ["idea", "copy", "playbook"].iter().map(|kind| entry(kind, kind, &["s1", "f1"])).collect();
    append(&world, &rest);
    world
}

fn request(execution: &str, dry_run: bool) -> String {
    json!({ "robotId": "r", "objective_type": "landing_plan", "objective_payload": {}, "constraints": {},
            "coherence_policy": { "on_stale": "block", "on_partial": "block" }, "dryRun": dry_run,
            "workflowVersion": "w1", "agentVersion": "planner@1", "attempt": 1, "executionId": execution })
    .to_string()
}

/// The entry of a receipt in the ledger.
fn receipt_entry(world: &World, line: &Value) -> Value {
    let key = format!("run_receipt:{}", line["receipt_id"].as_str().unwrap());
    let listed = ran(&world.crealeph(&["ledger", "list", "--type", "run_receipt"])).lines;
    listed.into_iter().find(|entry| entry["key"] == key.as_str()).unwrap()
}

#[test]
fn planned_tasks_are_worked_on_with_lineage() {
    let world = planned();
    let built = fed(&world, &["build", "-"], &request("e-1", false));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stdout));
    let items = world.crealeph(&["work", "from-tasks", "e-1"]);
    assert!(items.status.success(), "{}", String::from_utf8_lossy(&items.stderr));
    let items = String::from_utf8(items.stdout).unwrap();
    let parsed: Vec<Value> = serde_json::from_str(&items).unwrap();
    assert_eq!(parsed.len(), 2);
    let done = ran(&fed(&world, &["work", "run", "-"], &items));
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(world.read("count.txt").trim(), "1");
    for item in &parsed {
        let id = item["id"].as_str().unwrap();
        let entry = receipt_entry(&world, done.of(id));
        assert_eq!(entry["robotId"], "r");
        assert_eq!(entry["lineage"]["dependsOnLedgerIds"], json!([id]));
    }
}

#[test]
fn the_policy_decides_before_anything_starts() {
    let world = planned();
    assert!(fed(&world, &["build", "-"], &request("e-1", false)).status.success());
    let items = String::from_utf8(world.crealeph(&["work", "from-tasks", "e-1"]).stdout).unwrap();
    // A newer signal makes everything that is based on the old one stale.
    append(&world, &[entry("signal", "s2", &[])]);
    let before = world.state();
    let refused = ran(&fed(&world, &["work", "run", "-"], &items));
    assert_eq!((refused.code, refused.lines.len()), (1, 0), "{}", refused.stderr);
    assert!(refused.stderr.contains("coherence.stale"), "{}", refused.stderr);
    assert_eq!(world.state(), before);
    let bound = world.run(&[item("w", "echo x > x")], &["--robot", "r"]);
    assert!(bound.code == 1 && bound.stderr.contains("BLOCK"), "{}", bound.stderr);
    let unknown = world.run(&[item("w", "echo x > x")], &["--robot", "nobody"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("SNAPSHOT_EMPTY"), "{}", unknown.stderr);
    // A run that is bound to none needs no evidence.
    assert_eq!(world.run(&[item("w", "echo x > x")], &[]).code, 0);
}

#[test]
fn a_held_run_stays_bound_to_its_robot() {
    let world = planned();
    let test =
        |id: &str| item_with(id, &format!("echo x > {id}"), json!({ "test_command": "test ! -e moved" }));
    let run = |id: &str| {
        let held = world.run(&[test(id)], &["--robot", "r", "--hold"]);
        assert_eq!(held.code, 3, "{}", held.stderr);
    };
    let approve = |id: &str| ran(&world.crealeph(&["work", "approve", id, "--reason", "fine"]));
    run("one");
    let landed = approve("one");
    assert_eq!(landed.code, 0, "{}", landed.stderr);
    assert_eq!(receipt_entry(&world, &landed.lines[0])["robotId"], "r");
    let verdicts = ran(&world.crealeph(&["ledger", "list", "--type", "run_verdict"])).lines;
    assert_eq!(verdicts[0]["robotId"], "r");
    // Its tests fail when it is to land, and the change is kept with its robot.
    run("two");
    world.write("moved", "");
    let red = approve("two");
    assert_eq!(red.of("two")["status"], "failure", "{:?} {}", red.lines, red.stderr);
    assert_eq!(receipt_entry(&world, &red.lines[0])["robotId"], "r");
    let retried = ran(&world.crealeph(&["work", "retry", "two", "--test", "true"]));
    assert_eq!(retried.code, 3, "{:?} {}", retried.lines, retried.stderr);
    let landed = approve("two");
    assert_eq!(receipt_entry(&world, &landed.lines[0])["robotId"], "r", "{}", landed.stderr);
}

#[test]
fn drafts_are_not_work_items() {
    let world = planned();
    assert!(fed(&world, &["build", "-"], &request("e-1", true)).status.success());
    let none = world.crealeph(&["work", "from-tasks", "e-1"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("draft"));
}
