//! Bounds of what an agent reports and of what a receipt holds: what is at the bound is read back everywhere, what is one
//! past it counts all the same, or is denied.

use std::fs;

use crealeph_contracts::json::{Limits, parse};
use serde_json::json;

use crate::readback::{nested, read_back};
use crate::world::{World, item, item_with, ran};

/// The first reports through the trace channel, the others through event streams.
const AGENTS: &str = r#"
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]

[work.agents.two]
agent_id = "agent-2"
command = ["sh", "-c", "{prompt}"]
stream = "claude"

[work.agents.three]
agent_id = "agent-3"
command = ["sh", "-c", "{prompt}"]
stream = "codex"
"#;

/// The receipts' entries in the ledger, by id.
fn receipt_ids(world: &World) -> Vec<String> {
    let listed = world.crealeph(&["ledger", "list", "--type", "run_receipt"]).stdout;
    let id = |line: &str| {
        let (document, faults) = parse(line.as_bytes(), &Limits::own(usize::MAX));
        assert!(faults.is_empty(), "{faults:?}");
        document.unwrap().root().member("id").unwrap().text_value().into_owned()
    };
    String::from_utf8(listed).unwrap().lines().map(id).collect()
}

#[test]
fn a_report_as_deep_as_allowed_is_read_back_everywhere() {
    let world = World::with(AGENTS);
    // Who reports, how deep a line is around what is at `@`, the line, and where it goes.
    let claude = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"t","input":@}]}}"#;
    let codex = r#"{"type":"item.started","item":{"id":"i","type":"t","arguments":@}}"#;
    let channels = [
        ("agent-1", 1, r#"{"tool":"t","input":@}"#, ">> $CREALEPH_TRACE"),
        ("agent-2", 4, claude, ""),
        ("agent-3", 2, codex, ""),
    ];
    for (agent, around, line, to) in channels {
        for depth in 126..=129 {
            let (name, input) = (format!("{agent}-{depth}"), nested(depth - around));
            let script = format!("echo '{}' {to}; echo x > {name}", line.replace('@', &input));
            let line = world.run_one(item_with(&name, &script, json!({ "agent_id": agent })));
            assert_eq!((&line["status"], &line["metrics"]["tool_ops_count"]), (&json!("success"), &json!(1)));
            let receipt = fs::read_to_string(line["receipt_path"].as_str().unwrap()).unwrap();
            let tool = if depth <= 128 { "t" } else { "unknown" };
            assert!(receipt.contains(&format!("\"tool\":\"{tool}\"")), "{name}");
            assert_eq!(receipt.contains(&input), depth <= 128, "{name}");
            let shown = world.crealeph(&["work", "show", &name]);
            assert!(shown.status.success(), "{name}: {}", String::from_utf8_lossy(&shown.stderr));
        }
    }
    // The same through a held change.
    let script =
        format!("echo '{{\"tool\":\"t\",\"input\":{}}}' >> $CREALEPH_TRACE; echo x > held", nested(127));
    let held = world.run(&[item("held", &script)], &["--hold"]);
    assert_eq!(held.code, 3, "{}", held.stderr);
    let approved = ran(&world.crealeph(&["work", "approve", "held", "--reason", "good"]));
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    world.check(&approved.lines[0]);
    let receipt = fs::read_to_string(approved.lines[0]["receipt_path"].as_str().unwrap()).unwrap();
    assert!(receipt.contains(&nested(127)));
    let ids = receipt_ids(&world);
    assert_eq!(ids.len(), 13);
    read_back(&|arguments| world.command(arguments), world.root().parent().unwrap(), &ids);
}

/// A file with a long path and many hunks, each of which names the path, makes a receipt of any size.
#[test]
fn a_change_that_no_receipt_can_hold_is_denied() {
    let world = World::new();
    let folder = format!("{}/", "d".repeat(250)).repeat(14);
    let path = format!("{folder}{}", "f".repeat(200));
    let lines = |mark: &str, count: usize| -> String {
        (0..count).map(|line| format!("{line} {}\n", if line % 2 == 0 { mark } else { "" })).collect()
    };
    world.write(&path, &lines("old", 40_000));
    let before = world.state();
    // Some 3,700 bytes for each of so many changes.
    let script = |count: usize| {
        format!(
            "awk 'NR <= {} {{ sub(\"old\", \"new\") }} {{ print }}' {path} > /tmp/f; cat /tmp/f > {path}",
            2 * count
        )
    };
    let bounds = json!({ "constraints": { "max_delta_size": 100_000 } });
    let denied = world.run(&[item_with("w", &script(10_000), bounds)], &[]);
    let line = denied.of("w");
    let reason = line["denial_reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("Exceeded max receipt bytes: "), "{line} {}", denied.stderr);
    assert!(reason.ends_with(" > 33554432"), "{line}");
    world.check(line);
    assert_eq!(world.state(), before);
}

#[test]
fn the_flags_of_a_task_set_its_limits() {
    let world = World::new();
    let task = |script: &str, flags: &[&str]| {
        let ran = ran(&world.crealeph(&[&["work", "run", "--agent", "one", script], flags].concat()));
        assert_eq!(ran.lines.len(), 1, "{}", ran.stderr);
        let line = &ran.lines[0];
        line["denial_reason"].as_str().or(line["error"].as_str()).unwrap_or("success").to_owned()
    };
    let two_tests = "mkdir -p tests; echo t > tests/one; echo t > tests/two";
    assert_eq!(task(two_tests, &["--max-tests", "1"]), "Exceeded max delta size of Q: 2 > 1");
    assert_eq!(task(two_tests, &["--max-other", "0", "--max-tests", "2"]), "success");
    assert_eq!(task("echo o > o", &["--max-other", "0"]), "Exceeded max delta size of O: 1 > 0");
    assert_eq!(task("echo g > g.md", &["--max-generated", "0"]), "Exceeded max delta size of Π: 1 > 0");
    let slow = task("sleep 100", &["--timeout", "200ms"]);
    assert!(slow.starts_with("Timed out after 200 ms"), "{slow}");
    // A limit per class does not open what may not be changed.
    let denied =
        task("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", &["--max-protected", "9"]);
    assert_eq!(denied, "Denied path: .github/workflows/ci.yml");
}

#[test]
fn flags_that_no_run_would_follow_are_refused() {
    let world = World::new();
    let refused = |arguments: &[&str], expected: &str| {
        let output = world.crealeph(&[&["work", "run"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    let items = world.items(&[item("a", "echo a > a")]);
    refused(&[&items, "--max-files", "3"], "constraints");
    refused(&["--agent", "one", "true", "--timeout", "30"], "as in `30m` or `30d`");
    refused(&["--agent", "one", "true", "--timeout", "0s"], "--timeout");
    for empty in ["", " \t\n", "\u{2003}"] {
        refused(&["--agent", "one", empty], "the task is empty");
    }
    assert!(!world.at(".crealeph/runs/journal.jsonl").exists(), "nothing was run");
}
