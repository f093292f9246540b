//! The bounds in an agent's own table: what they fill, what they cap, and what a bound that was hit says.

use serde_json::json;

use crate::world::{World, item, item_with, ran};

const AGENT: &str = "[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"sh\", \"-c\", \"{prompt}\"]\n";

fn bounded(bounds: &str) -> World {
    World::with(&format!("{AGENT}[work.agents.one.bounds]\n{bounds}\n"))
}

/// A script that changes this many files.
fn files(count: usize) -> String {
    format!("for n in $(seq {count}); do echo {count} >> file-$n; done")
}

#[test]
fn agent_bounds_are_defaults_of_a_task_and_flags_override_them() {
    let world = bounded("max_files = 12\nmax_tool_ops = 7\ntimeout_ms = 90000");
    let run = |flags: &[&str], count| {
        let script = files(count);
        ran(&world.crealeph(&[&["work", "run", "--agent", "one", &script], flags].concat()))
    };
    let filled = run(&[], 12);
    assert_eq!((filled.code, &filled.lines[0]["status"]), (0, &json!("success")), "{}", filled.stderr);
    let item = world
        .read(&format!(".crealeph/runs/{}/work-item.json", filled.lines[0]["receipt_id"].as_str().unwrap()));
    let item: serde_json::Value = serde_json::from_str(&item).unwrap();
    assert_eq!(item["constraints"], json!({ "max_files": 12, "max_tool_ops": 7, "timeout_ms": 90000 }));
    let past = run(&[], 13);
    assert_eq!(past.lines[0]["denial_reason"], "Exceeded max files: 13 > 12");
    let flag = run(&["--max-files", "13"], 13);
    assert_eq!(flag.lines[0]["status"], "success", "{}", flag.stderr);
}

#[test]
fn agent_bounds_cap_an_item_of_a_file_which_keeps_the_contracts_defaults() {
    let world = bounded("max_files = 12\nmax_delta_size = 20");
    let usual = world.run_one(item("usual", &files(11)));
    assert_eq!(usual["denial_reason"], "Exceeded max files: 11 > 10", "they do not raise the default");
    let asks_for_more =
        world.run_one(item_with("more", &files(13), json!({ "constraints": { "max_files": 50 } })));
    assert_eq!(asks_for_more["denial_reason"], "Exceeded max files: 13 > 12");
    let within =
        world.run_one(item_with("within", &files(12), json!({ "constraints": { "max_files": 50 } })));
    assert_eq!(within["status"], "success", "{within}");
    let named = item_with("named", "seq 99 > file-1", json!({ "constraints": { "max_files": 1 } }));
    let ran = world.run(&[named], &["--agent", "one"]);
    assert_eq!(ran.of("named")["status"], "success", "{}", ran.stderr);
}

#[test]
fn a_bound_that_was_hit_names_the_flag_that_raises_it() {
    let world = bounded("max_files = 1");
    let script = files(2);
    let output = world
        .command(&["work", "run", "--agent", "one", &script])
        .env("CREALEPH_OUTPUT", "text")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("Exceeded max files: 2 > 1\n") && text.contains("raise    --max-files 2;"),
        "{text}"
    );
}

#[test]
fn a_bound_that_cannot_be_one_is_refused_with_its_place() {
    for (bounds, expected) in [
        ("max_file = 1", "max_files"),
        ("max_files = -1", "max_files"),
        ("timeout_ms = 0", "timeout_ms"),
        ("max_files = \"10\"", "max_files"),
    ] {
        let world = bounded(bounds);
        let output = world.crealeph(&["work", "run", "--agent", "one", "true"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{bounds}: {stderr}");
        assert!(stderr.contains("in `bounds`") && stderr.contains(expected), "{bounds}: {stderr}");
    }
}
