//! From a Builder's plan to work that is done, with the policy between and lineage all the way.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{AGENTS, World, item, ran};

const PLANNER: &str = r#"
[agents."planner@1"]
kind = "process"
command = ["python3", "planner.py"]
"#;

/// Plans two tasks, the second resting on the first.
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
        let line = done.of(id);
        let key = format!("run_receipt:{}", line["receipt_id"].as_str().unwrap());
        let listed =
            String::from_utf8(world.crealeph(&["ledger", "list", "--type", "run_receipt"]).stdout).unwrap();
        let entry: Value = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|entry| entry["key"] == key.as_str())
            .unwrap();
        assert_eq!(entry["robotId"], "r");
        assert_eq!(entry["lineage"]["dependsOnLedgerIds"], json!([id]));
    }
}

#[test]
fn the_policy_decides_before_anything_starts() {
    let world = planned();
    assert!(fed(&world, &["build", "-"], &request("e-1", false)).status.success());
    let items = String::from_utf8(world.crealeph(&["work", "from-tasks", "e-1"]).stdout).unwrap();
    // A newer signal makes everything that rests on the old one stale.
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
fn drafts_are_no_work() {
    let world = planned();
    assert!(fed(&world, &["build", "-"], &request("e-1", true)).status.success());
    let none = world.crealeph(&["work", "from-tasks", "e-1"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("draft"));
}
